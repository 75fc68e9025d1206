internal import Connectivity
private import ConnectivityProtocol
internal import ConnectivitySession
public import NIOCore

#if canImport(Glibc)
  private import Glibc
#elseif canImport(Musl)
  private import Musl
#else
  private import Darwin
#endif

/// Guards any TCP connection of SwiftNIO's, or a datagram channel that is connected: a WebSocket, an HTTP client's, a
/// database driver's (C10).
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
/// 1. Added before the connection is made, it guards it from before: the connection is made when connd has said which network it
///    would use, and no change falls between. (A connd that says nothing for a second is as good as none.) One that may not use
///    that network fails with ``NetworkUnavailable``, and nothing is sent (C8). Added later, it guards it from then on.
/// 2. The handlers after it are told by ``ConnectivityEvents``, as user inbound events.
/// 3. When connd says that the connection is no longer viable, it fires the ``FlowInvalidation`` as an error and closes the
///    channel at once, without waiting for TLS or anything else to say good-bye. Who prefers otherwise says so
///    (``InvalidationHandling``); with `drain`, the events are all there is as long as the connection may work.
/// 4. Without connd, or with one in another network namespace, it does nothing, and finds connd when it comes (C7). Unix sockets and connections to this machine itself
///    are not guarded: they need it not.
/// 5. Where connd declares three new connections to the same place dead as soon as they are made, or without ever having seen a
///    path for them, connd is wrong: for five minutes, or longer if it goes on so, those to that place are not guarded (I11).
/// 6. A connection of Multipath TCP goes on when one of its ways ends, and is not guarded, unless the other side speaks TCP alone;
///    nor is one whose own address is none of this machine's, as a transparent proxy's.
///
/// Belongs to one channel. It may be removed, and guards no longer then.
public final class ConnectivityGuardHandler: ChannelDuplexHandler, RemovableChannelHandler {
  public typealias InboundIn = NIOAny
  public typealias OutboundIn = NIOAny

  /// How a connection is guarded.
  public struct Configuration: Sendable {
    /// The networks that the connection may use. One whose path becomes another is invalid (I8).
    public var access: NetworkAccess = .unrestricted
    /// What becomes of a connection that may not use every network, and of which nobody knows which it would use: connd is
    /// not there, or says nothing for five seconds (C7).
    public var whenUnknown: WhenUnknown = .allow
    /// What becomes of a connection that is no longer viable.
    public var onInvalidation: InvalidationHandling = .destroy
    /// The `SO_MARK` of the connection; 0: none.
    public var mark: UInt32 = 0
    /// The link that the connection is bound to (`SO_BINDTODEVICE`). One to a link-local address is, to that of the address
    /// (`fe80::1%eth0`), without saying so here.
    public var interface: String?
    /// The path of connd's socket.
    public var socket: String = SocketPath.default
    /// Connections to this machine itself are guarded, too; for tests that play a network on loopback.
    public var guardsLoopback = false

    public init() {}
  }

  /// What becomes of a connection where it is not known whether it may use its network.
  public enum WhenUnknown: Hashable, Sendable {
    /// It is made: connd's absence takes nobody's network away (C7).
    case allow
    /// It fails with ``NetworkUnavailable`` for the reason ``NetworkUnavailable/Reason/unknown``.
    case refuse
  }

  /// A connection that is to be made, and waits for what connd says of its network.
  private struct Held {
    var address: SocketAddress
    var promise: EventLoopPromise<Void>?
    /// What was told meanwhile.
    var events: [(FlowEvent, ConnectionGuard.Novelty)] = []
  }

  private let configuration: Configuration
  private var flow: ConnectionGuard?
  /// That of the first path.
  private var link: UInt32?
  /// The last that was told.
  private var path: Path?
  private var isViable = true
  private var hasBetterPath = false
  private var held: Held?

  public init(_ configuration: Configuration = Configuration()) {
    self.configuration = configuration
  }

  public func handlerAdded(context: ChannelHandlerContext) {
    guard context.channel.isActive, let remote = context.remoteAddress else { return }
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
    self.begin(to: address, context: context)
    // What connd says before, it compares with what there is afterwards.
    let isRestricted = !self.configuration.access.isUnrestricted
    guard let asked = self.flow ?? (isRestricted ? self.asking(address, context) : nil) else {
      return context.connect(to: address, promise: promise)
    }
    self.held = Held(address: address, promise: promise)
    let eventLoop = context.eventLoop
    let bound = NIOLoopBound((handler: self, context: context), eventLoop: eventLoop)
    let isGuarded = self.flow != nil
    Task(executorPreference: EventLoopTaskExecutor(ClientThread.eventLoop)) {
      let answer = await asked.answer(within: ConnectionGuard.patience(isRestricted: isRestricted))
      if !isGuarded { asked.end() }
      eventLoop.execute { bound.value.handler.decide(by: answer, bound.value.context) }
    }
  }

  /// Makes the connection that waits, or refuses it.
  private func decide(by answer: ConnectionGuard.Answer, _ context: ChannelHandlerContext) {
    guard let held = self.held else { return }
    self.held = nil
    if let refusal = self.refusal(answer) {
      self.end()
      held.promise?.fail(refusal)
      return context.close(promise: nil)
    }
    context.connect(to: held.address, promise: held.promise)
    for (event, novelty) in held.events where self.flow != nil {
      self.handle(event, novelty, context)
    }
  }

  private func refusal(_ answer: ConnectionGuard.Answer) -> NetworkUnavailable? {
    // connd may be there, and not know either (K8).
    if let path = answer.path, path.status != .unknown {
      return self.configuration.access.refusal(of: path)
    }
    let isRefused =
      !self.configuration.access.isUnrestricted && self.configuration.whenUnknown == .refuse
    return isRefused ? NetworkUnavailable(reason: .unknown, path: .unknown) : nil
  }

  public func channelActive(context: ChannelHandlerContext) {
    // A channel that was made of a connected socket was never asked to connect.
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

  /// The flow of a connection; `nil` where there is nothing to guard.
  private func flow(to address: SocketAddress, _ context: ChannelHandlerContext) -> FlowGuard.Flow?
  {
    guard let remote = address.ip, self.configuration.guardsLoopback || !remote.isLoopback else {
      return nil
    }
    let access = self.configuration.access
    return FlowGuard.Flow(
      remote: remote,
      transport: Transport(Self.number(of: context.channel), remotePort: address.ipPort),
      mark: self.configuration.mark, interface: self.configuration.interface ?? address.link,
      forbidsExpensive: !access.allowsExpensiveAccess,
      forbidsConstrained: !access.allowsConstrainedAccess)
  }

  /// Asks which network a connection would use that is not guarded.
  private func asking(_ address: SocketAddress, _ context: ChannelHandlerContext)
    -> ConnectionGuard?
  {
    self.flow(to: address, context).map { flow in
      ConnectionGuard(flow, hub: GuardHub.shared(socket: self.configuration.socket)) { _, _, _ in }
    }
  }

  private func begin(to address: SocketAddress, context: ChannelHandlerContext) {
    // Where the other side does not speak Multipath TCP, that shows when the connection is made.
    guard self.flow == nil, let flow = self.flow(to: address, context),
      !ChannelSocket(channel: context.channel).isMultipath
    else { return }
    let place = Breakers.Place(
      socket: self.configuration.socket, remote: flow.remote, port: address.ipPort)
    guard Breakers.allowGuarding(of: place) else { return }
    let bound = NIOLoopBound((handler: self, context: context), eventLoop: context.eventLoop)
    let eventLoop = context.eventLoop
    let hub = GuardHub.shared(socket: self.configuration.socket)
    self.flow = ConnectionGuard(flow, hub: hub) { event, novelty, flow in
      guard case .flow(let event) = event else { return }
      Breakers.heed(event, of: flow, novelty, to: place)
      eventLoop.execute {
        let (handler, context) = bound.value
        // It may be too late.
        guard handler.flow != nil else { return }
        if handler.held != nil {
          handler.held?.events.append((event, novelty))
        } else {
          handler.handle(event, novelty, context)
        }
      }
    }
  }

  private func connected(_ context: ChannelHandlerContext) {
    guard let local = context.localAddress, let address = local.ip else { return }
    if ChannelSocket(channel: context.channel).obstacle(from: address) != nil { return self.end() }
    self.flow?.connected(local: address, port: local.ipPort)
  }

  /// The number of the channel's protocol: UDP's for one of datagrams, else TCP's.
  private static func number(of channel: any NIOCore.Channel) -> UInt8 {
    let kind = ChannelSocket(channel: channel).option(SOL_SOCKET, SO_TYPE, CInt(0))
    return kind == datagramSocket ? Transport.udp : Transport.tcp
  }

  private func end() {
    self.flow?.end()
    self.flow = nil
  }

  private func handle(
    _ event: FlowEvent, _ novelty: ConnectionGuard.Novelty, _ context: ChannelHandlerContext
  ) {
    if let path = event.ownPath {
      let isNew = path != self.path
      self.path = path
      if context.remoteAddress?.ip?.isLoopback == false {
        self.link = self.link ?? path.chain.first?.index
      }
      if isNew {
        context.fireUserInboundEventTriggered(ConnectivityEvents.PathChanged(path: path))
      }
      self.viable(path.status == .satisfied, context)
    }
    if case .betterPathGone = event, self.hasBetterPath {
      self.hasBetterPath = false
      context.fireUserInboundEventTriggered(ConnectivityEvents.BetterPathUnavailable())
    }
    guard let invalidation = self.configuration.access.invalidation(by: event) else { return }
    context.fireUserInboundEventTriggered(
      ConnectivityEvents.Invalidated(invalidation: invalidation))
    if invalidation.reason == .betterPath {
      if !self.hasBetterPath {
        self.hasBetterPath = true
        context.fireUserInboundEventTriggered(ConnectivityEvents.BetterPathAvailable())
      }
    } else {
      let isViable = invalidation.severity != .destroy && invalidation.path?.status == .satisfied
      self.viable(isViable, context)
    }
    if self.configuration.onInvalidation.action(for: invalidation) == .destroy {
      self.end()
      context.fireErrorCaught(invalidation)
      // From the lowest end, so that no handler between has to agree.
      let cutter = ConnectionCutter(context.channel)
      try? context.pipeline.syncOperations.addHandler(cutter.handler, position: .first)
      cutter.cut(link: self.link)
    } else if invalidation.severity == .destroy, invalidation.isSurvivable, novelty.isNews {
      let awaitsReturn = invalidation.reason == .betterPath
      self.flow?.goOn(on: self.path?.interface, awaitsReturn: awaitsReturn)
    }
  }

  private func viable(_ isViable: Bool, _ context: ChannelHandlerContext) {
    guard isViable != self.isViable else { return }
    self.isViable = isViable
    context.fireUserInboundEventTriggered(ConnectivityEvents.ViabilityUpdate(isViable: isViable))
  }
}

@available(*, unavailable)
extension ConnectivityGuardHandler: Sendable {}

#if canImport(Glibc)
  private let datagramSocket = CInt(SOCK_DGRAM.rawValue)
#else
  private let datagramSocket = SOCK_DGRAM
#endif
