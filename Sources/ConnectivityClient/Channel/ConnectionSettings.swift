internal import Connectivity
internal import GRPCCore
internal import GRPCNIOTransportHTTP2Posix
internal import NIOCore

/// The settings that all connections of a channel share.
struct ConnectionSettings: Sendable {
  var config: NetworkAwareTransport.Config
  var security: HTTP2ClientTransport.Posix.TransportSecurity
  var limit: DecompressionGuard?
  /// Whether the addresses of a name are tried in random order.
  var shufflesAddresses: Bool
  /// The event loop of all the channel's connections and their guards, so that an event wakes only
  /// one thread.
  var eventLoop: any EventLoop
  /// Asks connd for the path to an address and port by the other way (W5). Returns `nil` if connd
  /// gives no valid answer, or is in another network namespace.
  var otherWay: @Sendable (IPAddress, UInt16) async -> OtherWay?
  /// Reports to connd how an attempt to connect to an address and port ended (Q2).
  var report: @Sendable (AttemptOutcome, IPAddress, UInt16) async -> Void = { _, _, _ in }

  /// Whether the channel's settings allow the other way for connections to an address (W5, W6).
  func mayTakeOtherWay(to address: IPAddress?) -> Bool {
    guard let address, self.config.socket.guardsLoopback || !address.isLoopback else {
      return false
    }
    return self.config.assist != .never && self.config.interface == nil
      && self.config.mark ?? 0 == 0
  }

  private static func registry() -> NameResolverRegistry {
    var registry = NameResolverRegistry()
    registry.registerFactory(FixedAddress.Resolver())
    return registry
  }

  /// - Parameter onOpen: Called with each channel before it connects, on its thread.
  /// - Throws: `RuntimeError` if the TLS configuration cannot work.
  func makeTransport(
    to target: FixedAddress,
    onOpen: @escaping @Sendable (any NIOCore.Channel) -> EventLoopFuture<Void>
  ) throws -> HTTP2ClientTransport.Posix {
    var callbacks = self.config.channelDebuggingCallbacks
    let onCreate = callbacks.onCreateTCPConnection
    callbacks.onCreateTCPConnection = { channel in
      let opened = onOpen(channel).flatMap { self.prepare(channel, target) }
      guard let onCreate else { return opened }
      return opened.flatMap { onCreate(channel) }
    }
    if let limit = self.limit {
      let onCreate = callbacks.onCreateHTTP2Stream
      callbacks.onCreateHTTP2Stream = { stream in
        let added = stream.eventLoop.makeCompletedFuture {
          try stream.pipeline.syncOperations.addHandler(limit.handler(), position: .first)
        }
        guard let onCreate else { return added }
        return added.flatMap { onCreate(stream) }
      }
    }
    return try HTTP2ClientTransport.Posix(
      target: target, transportSecurity: self.security,
      config: .init(self.config, callbacks: callbacks), resolverRegistry: Self.registry(),
      eventLoopGroup: self.eventLoop)
  }

  /// Prepares a socket before it connects: sets its mark, and binds it to a link. Replaces the
  /// socket if the connection may use several networks.
  private func prepare(
    _ channel: any NIOCore.Channel, _ target: FixedAddress
  ) -> EventLoopFuture<Void> {
    guard target.address.ip != nil, let socket = channel as? any SocketOptionProvider else {
      return channel.eventLoop.makeSucceededVoidFuture()
    }
    if self.config.access.isUnrestricted { channel.useMultipath(self.config.multipath) }
    return socket.mark(self.config.mark ?? 0).flatMap { socket.bind(to: self.config.interface) }
  }
}
