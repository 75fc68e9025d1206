public import Connectivity
internal import ConnectivitySession
private import Synchronization

/// Guards one connection, whoever made it: a BSD socket, libpq's (`PQsocket`), hiredis' (`redisContext.fd`), libcurl's
/// (`CURLINFO_ACTIVESOCKET`).
///
/// ```swift
/// let watch = try SocketGuard(descriptor: PQsocket(connection)) { $0.shutsDown = true }
/// ```
///
/// 1. It guards from when it is made until ``end()`` or its last reference goes. End it before the descriptor is closed.
/// 2. ``events`` tells the connection's path, and when it is no longer viable.
/// 3. With ``Configuration/shutsDown``, a connection that is no longer viable is ended by shutdown(2): a library that waits for
///    an answer on it hears the end at once, and reports its own error. The descriptor stays its owner's to close.
/// 4. Without connd, or with one in another network namespace, nothing happens, and connd is found when it comes (C7).
/// 5. A connection that was made a moment ago is evidence against connd: where that declares three new ones to the same place dead
///    at once, or without ever having seen a path for them, new ones to that place are not guarded for a while (I11). Say so (``Configuration/isNew``).
/// 6. A connection of Multipath TCP goes on when one of its ways ends, and one whose own address is none of this machine's, as a
///    transparent proxy's, comes here by rules that connd does not see: these are not guarded, and told so.
///
/// All guards of a process share one stream to connd. Safe to use from any thread.
public final class SocketGuard: Sendable {
  /// How a connection is guarded.
  public struct Configuration: Sendable {
    /// The networks that the connection may use. One whose path becomes another is invalid (I8).
    public var access: NetworkAccess = .unrestricted
    /// A socket whose connection is no longer viable is shut down.
    public var shutsDown = false
    /// The connection was made a moment ago, so that it works.
    public var isNew = false
    /// The path of connd's socket.
    public var socket: String = SocketPath.default
    /// Connections to this machine itself are guarded, too; for tests that play a network on loopback.
    public var guardsLoopback = false

    public init() {}
  }

  /// What became of the connection.
  @nonexhaustive public enum Event: Hashable, Sendable {
    /// Its path: the first, and whenever it has changed.
    case path(Path)
    /// It is no longer viable, or may not be (``FlowInvalidation/severity``).
    case invalidated(FlowInvalidation)
    /// The better path that it was told of, and stayed without, is gone: what new connections get is its own way again.
    case betterPathUnavailable
    /// Nobody guards it, for this reason: connd is not there, which may change; or it needs no guard, or is refused one, which
    /// ends the events.
    case unguarded(String)
  }

  /// Why a socket cannot be guarded.
  public struct Failure: Error, Hashable, CustomStringConvertible {
    public let description: String

    init(_ description: String) { self.description = description }
  }

  /// What becomes of the connection, for one task to read. Ends when it is guarded no longer. Who does not read keeps the last
  /// 64. It is guarded for as long as somebody reads.
  public var events: Events { Events(watch: self) }

  /// What becomes of a connection, in order.
  public struct Events: AsyncSequence, Sendable {
    let watch: SocketGuard

    public func makeAsyncIterator() -> AsyncIterator {
      AsyncIterator(watch: self.watch, base: self.watch.stream.makeAsyncIterator())
    }

    /// Keeps the guard.
    public struct AsyncIterator: AsyncIteratorProtocol {
      let watch: SocketGuard
      var base: AsyncStream<Event>.AsyncIterator

      /// The next event; `nil` when the connection is guarded no longer, or the task was cancelled.
      public mutating func next() async -> Event? { await self.next(isolation: nil) }

      /// The next event, without leaving the caller's actor; `nil` when the connection is guarded no longer, or the task was
      /// cancelled.
      public mutating func next(isolation: isolated (any Actor)?) async -> Event? {
        await self.base.next(isolation: isolation)
      }
    }
  }

  private let stream: AsyncStream<Event>
  private let core: Core

  /// Guards a socket that is connected, by TCP or UDP over IPv4 or IPv6. Its addresses, ports, mark and link are the kernel's
  /// to know.
  ///
  /// - Throws: ``Failure`` where it is no such socket.
  public init(
    descriptor: CInt, _ configure: (inout Configuration) -> Void = { _ in }
  ) throws(Failure) {
    var configuration = Configuration()
    configure(&configuration)
    let socket = try ConnectedSocket(descriptor: descriptor)
    (self.stream, self.core) = Core.make(configuration, socket)
    let access = configuration.access
    self.core.begin(
      FlowGuard.Flow(
        remote: socket.remote, local: socket.local,
        transport: Transport(
          socket.number, localPort: socket.localPort, remotePort: socket.remotePort),
        mark: socket.mark, interface: socket.interface,
        forbidsExpensive: !access.allowsExpensiveAccess,
        forbidsConstrained: !access.allowsConstrainedAccess))
  }

  deinit { self.end() }

  /// Guards the connection no longer. The descriptor is not touched any more when this returns, unless it was just shut down.
  public func end() { self.core.end() }
}

/// What a guard and its flow share.
private final class Core: Sendable {
  private let configuration: SocketGuard.Configuration
  private let socket: ConnectedSocket
  private let events: AsyncStream<SocketGuard.Event>.Continuation
  private struct State {
    var flow: ConnectionGuard?
    /// That of the first path.
    var link: UInt32?
    var interface: String?
    var isOver = false
  }
  private let state = Mutex(State())

  private init(
    _ configuration: SocketGuard.Configuration, _ socket: ConnectedSocket,
    _ events: AsyncStream<SocketGuard.Event>.Continuation
  ) {
    self.configuration = configuration
    self.socket = socket
    self.events = events
  }

  static func make(
    _ configuration: SocketGuard.Configuration, _ socket: ConnectedSocket
  ) -> (AsyncStream<SocketGuard.Event>, Core) {
    let (events, continuation) = AsyncStream.makeStream(
      of: SocketGuard.Event.self, bufferingPolicy: .bufferingNewest(64))
    return (events, Core(configuration, socket, continuation))
  }

  func begin(_ flow: FlowGuard.Flow) {
    guard self.configuration.guardsLoopback || !flow.remote.isLoopback else {
      return self.finish(.unguarded("a connection to this machine itself needs no guard"))
    }
    if let obstacle = self.socket.obstacle(from: self.socket.local) {
      return self.finish(.unguarded(obstacle.rawValue))
    }
    let place = Breakers.Place(
      socket: self.configuration.socket, remote: flow.remote, port: self.socket.remotePort)
    let isNew = self.configuration.isNew
    guard !isNew || Breakers.allowGuarding(of: place) else {
      return self.finish(.unguarded("connd declared new connections dead that were just made"))
    }
    let hub = GuardHub.shared(socket: self.configuration.socket)
    let guarded = ConnectionGuard(flow, hub: hub) { event, novelty, flow in
      if isNew, case .flow(let event) = event { Breakers.heed(event, of: flow, novelty, to: place) }
      self.told(event, novelty)
    }
    let isOver = self.state.withLock { state in
      if !state.isOver { state.flow = guarded }
      return state.isOver
    }
    if isOver { guarded.end() }
  }

  func end() {
    let flow = self.state.withLock { state in
      defer { (state.flow, state.isOver) = (nil, true) }
      return state.flow
    }
    flow?.end()
    self.events.finish()
  }

  private func finish(_ event: SocketGuard.Event) {
    self.events.yield(event)
    self.end()
  }

  private func told(_ event: GuardHub.Event, _ novelty: ConnectionGuard.Novelty) {
    switch event {
    case .disconnected(let why): self.events.yield(.unguarded(why.description))
    case .elsewhere(let foreign): self.events.yield(.unguarded("\(foreign)"))
    case .flow(.refused(let why)): self.finish(.unguarded(why))
    case .flow(let event):
      if let path = event.ownPath {
        self.state.withLock { state in
          state.link = state.link ?? path.chain.first?.index
          state.interface = path.interface ?? state.interface
        }
        self.events.yield(.path(path))
        if case .betterPathGone = event { self.events.yield(.betterPathUnavailable) }
      }
      if let invalidation = self.configuration.access.invalidation(by: event) {
        self.invalidate(invalidation, novelty)
      }
    }
  }

  private func invalidate(_ invalidation: FlowInvalidation, _ novelty: ConnectionGuard.Novelty) {
    self.events.yield(.invalidated(invalidation))
    guard invalidation.severity == .destroy else { return }
    if self.configuration.shutsDown {
      // In the lock: after ``end()`` the descriptor may be another one's.
      self.state.withLock { state in
        let link = self.socket.remote.isLoopback ? nil : state.link
        if !state.isOver { self.socket.shutDown(link: link) }
      }
      return self.end()
    }
    let (flow, interface) = self.state.withLock { ($0.flow, $0.interface) }
    let goesOn =
      invalidation.isSurvivable && novelty.isNews
      && flow?.goOn(on: interface, awaitsReturn: invalidation.reason == .betterPath) ?? false
    if !goesOn { self.end() }
  }
}
