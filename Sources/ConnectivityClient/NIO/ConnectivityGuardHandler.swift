internal import Connectivity
private import ConnectivityProtocol
public import ConnectivityMonitor
public import CoreMetrics
public import Logging
public import NIOCore

#if canImport(Glibc)
  private import Glibc
#elseif canImport(Musl)
  private import Musl
#else
  private import Darwin
#endif

/// Guards a SwiftNIO TCP connection or a connected datagram channel: a WebSocket, or the connection
/// of an HTTP client or a database driver (C10).
///
/// ```swift
/// ClientBootstrap(group: group).channelInitializer { channel in
///   channel.eventLoop.makeCompletedFuture {
///     try channel.pipeline.syncOperations.addHandler(ConnectivityGuardHandler())
///     …
///   }
/// }
/// ```
///
/// 1. If added before the connection is made, the handler guards it from the start. It connects
///    once connd has reported which network the connection would use, so no change is missed. (If
///    connd is silent for a second, it connects anyway.) A connection that may not use that network
///    fails with `NetworkUnavailableError`, and nothing is sent (C8). If added later, it guards the
///    connection from then on.
/// 2. The handler sends each `ConnectionEvent` to the handlers after it, as an inbound user event.
/// 3. When connd reports that the connection is no longer viable, the handler fires the
///    `InvalidationError` as an error and closes the channel. It does not wait for a TLS close or
///    anything else. Set ``InvalidationHandling`` to change that. With `drain`, it only fires
///    events as long as the connection may still work.
/// 4. If connd is not running, or runs in another network namespace, the handler does nothing. It
///    uses connd once connd appears (C7). It does not guard Unix sockets and loopback connections,
///    which need no guard. connd judges the connection by its mark and its bound link, which the
///    handler reads from the socket. Set both before the connection is made.
/// 5. If connd rejects three new connections to the same destination in a row, connd is wrong.
///    Connections to that destination are then not guarded for five minutes, or longer if this
///    continues. Ending a connection for which connd never saw a path counts as a rejection (I11).
///    Every connection that is not guarded receives `ConnectionEvent.unguarded`.
/// 6. A Multipath TCP connection survives the loss of a network as long as one of its subflows
///    remains. (Before Linux 5.16 it is not guarded.)
/// 7. The handler does not guard a connection if its local address belongs to another machine, as
///    for a transparent proxy.
/// 8. If connd asks whether the peer is alive, the handler briefly enables keepalive, and the
///    kernel sends one probe (E4).
/// 9. With ``Config/shortensOutages``, the connection continues within about two seconds after an
///    outage beyond this machine.
///
/// Belongs to one channel. Removing the handler ends the guard.
public final class ConnectivityGuardHandler: ChannelDuplexHandler, RemovableChannelHandler {
  public typealias InboundIn = NIOAny
  public typealias OutboundIn = NIOAny

  /// The configuration of a guard.
  public struct Config: Sendable {
    /// The networks that the connection may use. If the connection's path changes to a forbidden
    /// network, the connection is invalid (I8).
    public var access: NetworkAccess = .unrestricted
    /// Whether the connection may use several networks at once (M1). Takes effect if the handler is
    /// added by the `channelInitializer` of a `ClientBootstrap`, because the socket is replaced.
    public var multipath: MultipathService = .none
    /// The reaction to an invalidation of the connection.
    public var onInvalidation: InvalidationHandling = .destroy
    /// Whether TCP retransmits at least every two seconds while connd reports a satisfied path, so
    /// that an outage ends soon after the path is back (C11). Needs Linux 6.15. Only for a peer
    /// that reads what it gets: if it stops reading for 15 minutes, the kernel ends the connection.
    public var shortensOutages = false
    /// connd's socket.
    public var socket: ConndSocket = .default
    /// Logs why the connection is no longer viable, refused or not guarded. `nil` logs nothing.
    public var logger: Logger?
    /// Receives the counters of ``NetworkAwareTransport/Config/metricsFactory``. `nil` means the
    /// factory that the process has chosen.
    public var metricsFactory: (any MetricsFactory)?

    public static var defaults: Config { Config() }

    /// Returns the defaults, changed by `configure`.
    public static func defaults(_ configure: (inout Config) -> Void) -> Config {
      var config = Config()
      configure(&config)
      return config
    }
  }

  /// A connection that waits for connd to report its network.
  private struct Held {
    var address: SocketAddress
    var promise: EventLoopPromise<Void>?
    /// The reports that arrived while the connection waited.
    var reports: [ConnectionGuard.Report] = []
  }

  private let config: Config
  private var flow: ConnectionGuard?
  private var inquirer: PeerInquirer?
  /// The link of the first path.
  private var link: UInt32?
  private var news = ConnectionNews()
  private var held: Held?
  /// Why the connection is not guarded. Reported once the connection is made.
  private var unguardedReason: ConndError?

  public init(config: Config = .defaults) { self.config = config }

  public func handlerAdded(context: ChannelHandlerContext) {
    guard context.channel.isActive, let remote = context.remoteAddress else {
      if self.config.access.isUnrestricted { context.channel.useMultipath(self.config.multipath) }
      return
    }
    self.begin(to: remote, context: context)
    self.connected(context)
  }

  public func handlerRemoved(context: ChannelHandlerContext) {
    self.end()
    // The channel was closed.
    self.held?.promise?.fail(ChannelError.ioOnClosedChannel)
    self.held = nil
  }

  public func removeHandler(
    context: ChannelHandlerContext, removalToken: ChannelHandlerContext.RemovalToken
  ) {
    if let held = self.held {
      self.held = nil
      context.connect(to: held.address, promise: held.promise)
    }
    context.leavePipeline(removalToken: removalToken)
  }

  public func connect(
    context: ChannelHandlerContext, to address: SocketAddress, promise: EventLoopPromise<Void>?
  ) {
    // Ask first: connd compares its answer with the state after the connection is made.
    let isRestricted = !self.config.access.isUnrestricted
    guard let asked = self.begin(to: address, context: context, isRestricted: isRestricted) else {
      return context.connect(to: address, promise: promise)
    }
    self.held = Held(address: address, promise: promise)
    let eventLoop = context.eventLoop
    let bound = NIOLoopBound((handler: self, context: context), eventLoop: eventLoop)
    Task(executorPreference: Connector.shared.executor) {
      let answer = await asked.answer(isRestricted: isRestricted)
      eventLoop.execute { bound.value.handler.decide(by: answer, bound.value.context) }
    }
  }

  /// Makes the waiting connection, or refuses it.
  private func decide(by answer: ConnectionGuard.Answer, _ context: ChannelHandlerContext) {
    guard let held = self.held else { return }
    self.held = nil
    if case .forbidden(let refusal) = answer.admission(for: self.config.access) {
      self.end()
      self.config.logger?.info(
        "the connection is not made",
        metadata: ["remote": "\(held.address)", "reason": "\(refusal)"])
      ClientMetrics(self.config.metricsFactory).refused(refusal.reason)
      held.promise?.fail(refusal)
      return context.close(promise: nil)
    }
    context.connect(to: held.address, promise: held.promise)
    for report in held.reports where self.flow != nil { self.handle(report, context) }
  }

  public func channelActive(context: ChannelHandlerContext) {
    // `connect` is not called for a channel that was created from a connected socket.
    if self.flow == nil, let remote = context.remoteAddress {
      self.begin(to: remote, context: context)
    }
    self.connected(context)
    context.fireChannelActive()
  }

  public func channelInactive(context: ChannelHandlerContext) {
    self.end()
    context.fireChannelInactive()
  }

  // MARK: The flow

  /// Returns the flow of a connection, or `nil` if there is nothing to guard.
  private func flow(to address: SocketAddress, _ context: ChannelHandlerContext) -> FlowGuard.Flow?
  {
    let socket = ChannelSocket(channel: context.channel)
    let number = Self.number(of: context.channel)
    // connect(2) binds a link-local connection to the link of its address.
    var flow = FlowGuard.Flow(
      to: address.ip, Transport(number, remotePort: address.ipPort),
      mark: socket.mark, boundTo: socket.boundLink ?? address.link,
      for: self.config.access, guardsLoopback: self.config.socket.guardsLoopback)
    if number == Transport.tcp, self.config.multipath == .none { flow?.question = .keepalive }
    return flow
  }

  /// Begins to guard the connection, if it is not guarded yet.
  ///
  /// - Parameter isRestricted: Whether the network must be known even if the connection is not
  ///   guarded.
  /// - Returns: The guard, or `nil` if no guard is needed. The guard may exist only to ask for the
  ///   network.
  @discardableResult
  private func begin(
    to address: SocketAddress, context: ChannelHandlerContext, isRestricted: Bool = false
  ) -> ConnectionGuard? {
    if let guarding = self.flow { return guarding }
    guard let flow = self.flow(to: address, context) else { return nil }
    let bound = NIOLoopBound((handler: self, context: context), eventLoop: context.eventLoop)
    let eventLoop = context.eventLoop
    self.inquirer = PeerInquirer(
      context.channel, shortensOutages: self.config.shortensOutages)
    let begun = ConnectionGuard.begin(
      flow, hub: GuardHub.shared(socket: self.config.socket.path),
      breaker: DestinationBreaker(flow, socket: self.config.socket.path),
      asksOtherwise: isRestricted
    ) { absence in
      eventLoop.execute {
        let (handler, context) = bound.value
        guard handler.flow != nil else { return }
        handler.inquirer?.note(nil)
        handler.unguarded(absence.error, context)
      }
    } onEvent: { report in
      eventLoop.execute {
        let (handler, context) = bound.value
        // The guard may have ended in the meantime.
        guard handler.flow != nil else { return }
        if handler.held != nil {
          handler.held?.reports.append(report)
        } else {
          handler.handle(report, context)
        }
      }
    } askPeer: {
      eventLoop.execute {
        let (handler, context) = bound.value
        guard let inquirer = handler.inquirer else { return }
        context.fireUserInboundEventTriggered(ConnectionEvent.asked)
        inquirer.ask(isBusy: false)
      }
    }
    self.flow = begun?.onlyAsks == false ? begun : nil
    self.unguardedReason = self.flow == nil ? DestinationBreaker.openReason : nil
    return begun
  }

  private func connected(_ context: ChannelHandlerContext) {
    guard let local = context.localAddress, let address = local.ip else { return }
    let socket = ChannelSocket(channel: context.channel)
    if let obstacle = self.flow?.connected(socket, from: address, port: local.ipPort) {
      self.end()
      return self.unguarded(obstacle.error, context)
    }
    if let reason = self.unguardedReason { self.unguarded(reason, context) }
  }

  /// Reports that the connection is not guarded, once it is made.
  private func unguarded(_ reason: ConndError, _ context: ChannelHandlerContext) {
    guard context.channel.isActive else {
      self.unguardedReason = reason
      return
    }
    self.unguardedReason = nil
    self.config.logger?.info(
      "the connection is not guarded", metadata: self.metadata(context, ["reason": "\(reason)"]))
    context.fireUserInboundEventTriggered(ConnectionEvent.unguarded(reason))
  }

  /// Returns the number of the channel's protocol: UDP for datagrams, otherwise TCP.
  private static func number(of channel: any NIOCore.Channel) -> UInt8 {
    let kind = ChannelSocket(channel: channel).option(SOL_SOCKET, SO_TYPE, CInt(0))
    return kind == datagramSocket ? Transport.udp : Transport.tcp
  }

  private func end() {
    self.inquirer?.end()
    self.flow?.end()
    (self.inquirer, self.flow) = (nil, nil)
  }

  private func handle(_ report: ConnectionGuard.Report, _ context: ChannelHandlerContext) {
    let event = report.event
    self.inquirer?.note(event)
    if let path = event.ownPath, context.remoteAddress?.ip?.isLoopback == false {
      self.link = self.link ?? path.chain.first?.index
    }
    for event in self.news.record(event, for: self.config.access) {
      if case .unguarded(let reason) = event {
        self.unguarded(reason, context)
      } else {
        context.fireUserInboundEventTriggered(event)
      }
    }
    report.warn(self.config.logger, self.metadata(context))
    guard let invalidation = self.config.access.invalidation(by: event) else { return }
    let action = self.config.onInvalidation.action(for: invalidation)
    ClientMetrics(self.config.metricsFactory).invalidated(invalidation)
    self.config.logger?.log(
      invalidation, cause: "\(invalidation.cause)", action, of: self.metadata(context))
    if action == .destroy {
      self.end()
      context.fireErrorCaught(invalidation)
      ConnectionCutter(channel: context.channel).cut(link: self.link)
    } else {
      report.keep(despite: invalidation, awaitsReturn: true)
    }
  }

  /// Returns the metadata for a log message about the connection.
  private func metadata(
    _ context: ChannelHandlerContext, _ more: Logger.Metadata = [:]
  ) -> Logger.Metadata {
    var metadata = more
    if let remote = context.remoteAddress { metadata["remote"] = "\(remote)" }
    if let path = self.news.path {
      metadata["network_interface"] = path.interface.map { "\($0)" }
      metadata["network_medium"] = "\(path.medium.rawValue)"
    }
    return metadata
  }
}

@available(*, unavailable)
extension ConnectivityGuardHandler: Sendable {}

#if canImport(Glibc)
  private let datagramSocket = CInt(SOCK_DGRAM.rawValue)
#else
  private let datagramSocket = SOCK_DGRAM
#endif
