internal import ConnectivitySession
public import GRPCNIOTransportHTTP2Posix
public import Logging

extension NetworkAwareTransport {
  /// How a channel behaves. ``defaults`` are those of grpc-swift-nio-transport, with an idle timeout of five minutes.
  public struct Config: Sendable {
    /// HTTP/2: frame and window sizes, the authority.
    public var http2: HTTP2ClientTransport.Config.HTTP2
    /// The pauses between attempts to connect: gRPC's connection-backoff document (1 s, × 1.6, at most 120 s, jitter
    /// 0.2).
    public var backoff: HTTP2ClientTransport.Config.Backoff
    /// The idle timeout (five minutes; a connection with an open call is never idle; `nil`: none) and keepalive (off).
    public var connection: HTTP2ClientTransport.Config.Connection
    /// The algorithm for requests, and those accepted for responses (none).
    public var compression: HTTP2ClientTransport.Config.Compression
    /// How large a compressed response may become; a call that gets a larger one fails with `RESOURCE_EXHAUSTED`.
    /// `nil`: as large as any message may be.
    public var decompressionLimit: DecompressionLimit?
    /// The networks that the channel may use (C8).
    public var access: NetworkAccess
    /// The mark of the channel's packets (`SO_MARK`, socket(7)), by which rules may choose another way for them; 0: none. To
    /// set one takes `CAP_NET_ADMIN`, without which connecting fails.
    public var mark: UInt32
    /// The link that the channel's connections are bound to (`SO_BINDTODEVICE`), by its name; `nil`: the kernel chooses by its
    /// routes. Needs no privileges. Connecting fails where there is no such link.
    public var interface: String?
    /// What an invalidation does to calls in flight.
    public var onInvalidation: InvalidationHandling
    /// What holds for calls that say nothing themselves: their logger, their IDs, their time limit.
    public var calls: CallSettings
    /// Told of connections: state changes, failures, invalidations. `nil`: nothing is logged.
    public var backgroundActivityLogger: Logger?
    /// Told of each state in its turn, by one task at a time; must not block.
    public var onConnectivityStateChange: (@Sendable (ConnectivityState) -> Void)?
    /// gRPC's callbacks for NIO's channels.
    public var channelDebuggingCallbacks: HTTP2ClientTransport.Config.ChannelDebuggingCallbacks
    /// The path of connd's socket.
    public var socket: String
    /// Connections to this machine itself are guarded, too. They need none; tests that play a network on loopback do.
    public var guardsLoopback: Bool

    /// The values above.
    public static var defaults: Config { .defaults { _ in } }

    /// The defaults, changed by `configure`.
    public static func defaults(_ configure: (inout Config) -> Void) -> Config {
      var connection = HTTP2ClientTransport.Config.Connection.defaults
      connection.maxIdleTime = .seconds(5 * 60)
      var config = Config(
        http2: .defaults, backoff: .defaults, connection: connection, compression: .defaults,
        decompressionLimit: nil, access: .unrestricted, mark: 0, interface: nil,
        onInvalidation: .destroy,
        calls: CallSettings(), backgroundActivityLogger: nil,
        onConnectivityStateChange: nil, channelDebuggingCallbacks: .defaults,
        socket: SocketPath.default, guardsLoopback: false)
      configure(&config)
      return config
    }
  }
}

extension HTTP2ClientTransport.Posix.Config {
  /// One connection's part of a channel's configuration.
  init(
    _ config: NetworkAwareTransport.Config,
    callbacks: HTTP2ClientTransport.Config.ChannelDebuggingCallbacks
  ) {
    var connection = config.connection
    // The channel keeps that time itself. gRPC's handler does not know yet of a call that has just been given the
    // connection, closes it under the call's feet, and the call fails.
    connection.maxIdleTime = nil
    self.init(
      http2: config.http2, backoff: config.backoff, connection: connection,
      compression: config.compression, channelDebuggingCallbacks: callbacks)
  }
}
