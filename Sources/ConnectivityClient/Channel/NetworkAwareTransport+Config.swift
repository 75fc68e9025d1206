public import ConnectivityMonitor
public import CoreMetrics
public import GRPCNIOTransportHTTP2Posix
public import Logging

extension NetworkAwareTransport {
  /// The configuration of a channel. ``defaults`` equals the defaults of grpc-swift-nio-transport,
  /// plus an idle timeout of five minutes.
  public struct Config: Sendable {
    /// HTTP/2 settings: frame and window sizes, and the authority.
    public var http2: HTTP2ClientTransport.Config.HTTP2
    /// The pauses between attempts to connect, as in gRPC's connection-backoff document (1 s, ×
    /// 1.6, at most 120 s, jitter 0.2).
    public var backoff: HTTP2ClientTransport.Config.Backoff
    /// Keepalive (off by default), and the idle timeout (five minutes by default, `nil` for none).
    /// A connection with an open call is never idle.
    public var connection: HTTP2ClientTransport.Config.Connection
    /// The algorithm for requests, and the algorithms accepted for responses. By default nothing is
    /// compressed.
    public var compression: HTTP2ClientTransport.Config.Compression
    /// The networks that the channel may use (C8).
    public var access: NetworkAccess
    /// The mark of the channel's packets (`SO_MARK`, socket(7)), which routing rules can match, or
    /// `nil` for none. Without `CAP_NET_ADMIN`, a mark makes connecting fail.
    public var mark: UInt32?
    /// The name of the link that the channel's connections are bound to (`SO_BINDTODEVICE`). `nil`
    /// leaves the choice to the kernel's routes. Needs no privileges. Connecting fails if the link
    /// does not exist.
    public var interface: String?
    /// When new calls may move from a network that works badly to another network (W).
    public var assist: Assistance
    /// Whether calls end on a connection that has stalled while another network reaches its server
    /// (W8). The default is ``Recovery/always``.
    public var recovery: Recovery
    /// Whether TCP retransmits at least every two seconds while connd reports a satisfied path, so
    /// that an outage ends soon after the path is back (C11). Needs Linux 6.15. The default is
    /// `true`.
    public var shortensOutages: Bool
    /// Whether the channel's connections may use several networks at once (M1).
    public var multipath: MultipathService
    /// How the channel handles an invalidation.
    public var onInvalidation: InvalidationHandling
    /// The settings for calls that have none of their own: logger, IDs, time limit, and limit for
    /// decompressed responses.
    public var calls: CallSettings
    /// Logs events of connections: state changes, failures, invalidations. `nil` logs nothing.
    public var backgroundActivityLogger: Logger?
    /// Receives the channel's measurements. `nil` means the factory that the process has chosen
    /// (`MetricsSystem`, which discards them by default).
    ///
    /// - `connectivity_client_invalidations`: a counter with `reason` and `severity`.
    /// - `connectivity_client_refusals`: a counter with `reason`.
    /// - `connectivity_client_reconnect`: a timer, from the first attempt after a lost connection.
    public var metricsFactory: (any MetricsFactory)?
    /// Called with each state in order, by one task at a time, on ``connectivityStateExecutor``.
    public var onConnectivityStateChange: (@Sendable (ConnectivityState) -> Void)?
    /// Runs ``onConnectivityStateChange``, which may then block. Later states and the end of the
    /// channel wait for it. `nil` means the channel's NIO thread, which must not be blocked.
    public var connectivityStateExecutor: (any TaskExecutor)?
    /// gRPC's callbacks for NIO channels.
    public var channelDebuggingCallbacks: HTTP2ClientTransport.Config.ChannelDebuggingCallbacks
    /// connd's socket.
    public var socket: ConndSocket

    /// When new calls may move from a network that works badly to another link's default route.
    /// Calls never move if the destination has its own tunnel, rule or route.
    @nonexhaustive public enum Assistance: Hashable, Sendable {
      /// Never.
      case never
      /// If the other path costs nothing.
      case inexpensive
      /// Also if the other path costs money and the user has allowed that. Never while roaming.
      case allowed
    }

    /// Which calls end with `UNAVAILABLE` if their connection makes no progress although another
    /// network reaches its server. The application can then repeat them there.
    ///
    /// These calls have received nothing for five seconds, and their connection has had three
    /// retransmission timeouts in a row (`TCP_INFO`). In the same silence, the channel's connection
    /// to the same address by another link has received something. The error's cause is an
    /// `InvalidationError` with the reason `silent`, which ``onInvalidation`` may keep. The server
    /// may have executed the calls.
    @nonexhaustive public enum Recovery: Hashable, Sendable {
      /// None. Calls continue until the network passes traffic again, or until the kernel gives
      /// their connection up after about 15 minutes (`net.ipv4.tcp_retries2`).
      case never
      /// All calls, unless a call that may stream runs on the same connection. A call may stream if
      /// its `MethodDescriptor.type` is not `unary`, or is `nil`.
      case exceptStreams
      /// All calls.
      case always
    }

    public static var defaults: Config { .defaults { _ in } }

    /// Returns the defaults, changed by `configure`.
    public static func defaults(_ configure: (inout Config) -> Void) -> Config {
      var connection = HTTP2ClientTransport.Config.Connection.defaults
      connection.maxIdleTime = .seconds(5 * 60)
      var config = Config(
        http2: .defaults, backoff: .defaults, connection: connection, compression: .defaults,
        access: .unrestricted, mark: nil, interface: nil,
        assist: .inexpensive, recovery: .always, shortensOutages: true, multipath: .none,
        onInvalidation: .destroy,
        calls: CallSettings(), backgroundActivityLogger: nil,
        onConnectivityStateChange: nil, connectivityStateExecutor: nil,
        channelDebuggingCallbacks: .defaults,
        socket: .default)
      configure(&config)
      return config
    }
  }
}

extension HTTP2ClientTransport.Posix.Config {
  /// Creates the configuration of one connection from the channel's.
  init(
    _ config: NetworkAwareTransport.Config,
    callbacks: HTTP2ClientTransport.Config.ChannelDebuggingCallbacks
  ) {
    var connection = config.connection
    // The channel enforces the idle timeout itself. gRPC's handler does not know about a call that
    // has just received the connection, and could close the connection before the call starts.
    connection.maxIdleTime = nil
    self.init(
      http2: config.http2, backoff: config.backoff, connection: connection,
      compression: config.compression, channelDebuggingCallbacks: callbacks)
  }
}
