import Connectivity
import ConnectivityClient
import ConnectivityMonitor
import ConnectivityTestKit
import Glibc
import Testing

/// Any connection, guarded by its descriptor.
@Suite("Guarded sockets", .timeLimit(.minutes(5)), .namesWaits)
struct SocketGuardTests {
  /// A connection over loopback to a server that sends nothing.
  private final class Connection {
    let listener: SilentListener
    private let socket: LoopbackSocket

    var descriptor: CInt { self.socket.descriptor }
    var hasEnded: Bool { self.socket.hasEnded }

    init() throws {
      self.listener = try SilentListener()
      self.socket = try LoopbackSocket(port: self.listener.port)
    }
  }

  private func guarded(
    _ connection: Connection, _ network: SimulatedNetwork, shutsDown: Bool = false
  ) throws -> SocketGuard {
    try SocketGuard(
      descriptor: connection.descriptor,
      config: .defaults {
        $0.socket = network.socket
        $0.shutsDown = shutsDown
      })
  }

  @Test(
    "C10 a connection is no longer viable → reported, and ended if configured",
    arguments: [false, true])
  func invalidated(shutsDown: Bool) async throws {
    try await withSimulatedNetwork(.wifi, clock: StoppedClock()) { network in
      let connection = try Connection()
      let watch = try self.guarded(connection, network, shutsDown: shutsDown)
      var events = watch.events.makeAsyncIterator()
      guard case .pathChanged(let path) = await events.next() else {
        Issue.record("no path")
        return
      }
      #expect(path.interface == "wlan0")
      #expect(!connection.hasEnded)
      network.become(.cellular)
      guard case .invalidated(let invalidation) = await events.next() else {
        Issue.record("no invalidation")
        return
      }
      #expect(invalidation.severity == .destroy)
      await #expect(events.next() == .notViable(.invalidated(invalidation.reason)))
      if shutsDown {
        await #expect(events.next() == nil)
        #expect(connection.hasEnded)
        // The events of a guard that has ended say why.
        let late = await watch.events.reduce(into: []) { $0.append($1) }
        #expect(late.contains(.invalidated(invalidation)))
      } else {
        watch.end()
        #expect(!connection.hasEnded)
      }
    }
  }

  @Test("C10 C8 a connection's path becomes forbidden → reported")
  func policy() async throws {
    for (access, network) in [
      (NetworkAccess(allowsExpensiveAccess: false), NetworkConditions.wifi.expensive()),
      (NetworkAccess(allowsConstrainedAccess: false), .wifi.constrained()),
    ] {
      try await withSimulatedNetwork(.wifi, clock: StoppedClock()) { simulated in
        let connection = try Connection()
        let watch = try SocketGuard(
          descriptor: connection.descriptor,
          config: .defaults {
            $0.socket = simulated.socket
            $0.access = access
          })
        var events = watch.events.makeAsyncIterator()
        guard case .pathChanged = await events.next() else { Issue.record("no path"); return }
        simulated.become(network)
        guard case .invalidated(let invalidation) = await events.next() else {
          Issue.record("no invalidation")
          return
        }
        #expect(invalidation.reason == .policy)
        #expect(
          invalidation.networkUnavailableReason
            == access.refusal(of: invalidation.path ?? .unknown)?.reason)
      }
    }
  }

  @Test("C10 a guard that only its reader holds stays alive")
  func read() async throws {
    try await withSimulatedNetwork(.wifi, clock: StoppedClock()) { network in
      let connection = try Connection()
      var words: [String] = []
      for await event in try self.guarded(connection, network, shutsDown: true).events {
        switch event {
        case .pathChanged(let path):
          words.append(path.interface ?? "none")
          network.become(.cellular)
        case .invalidated(let why): words.append(why.severity.rawValue)
        case .notViable: words.append("not viable")
        case .viable, .betterPathAvailable, .betterPathGone, .asked, .unguarded:
          Issue.record("\(event)")
        }
      }
      #expect(words == ["wlan0", "destroy", "not viable"])
    }
  }

  @Test("C10 a new socket with the descriptor of a closed connection is left alone")
  func reused() async throws {
    try await withSimulatedNetwork(.wifi, clock: StoppedClock()) { network in
      let connection = try Connection()
      let other = try Connection()
      let watch = try self.guarded(connection, network, shutsDown: true)
      var events = watch.events.makeAsyncIterator()
      _ = await events.next()
      // As if it had been closed, and the next socket had its number.
      #expect(dup2(other.descriptor, connection.descriptor) == connection.descriptor)
      network.become(.cellular)
      while await events.next() != nil {}
      #expect(!connection.hasEnded)
      #expect(!other.hasEnded)
    }
  }

  @Test("C10 a guard that has ended reports and does nothing")
  func ended() async throws {
    try await withSimulatedNetwork(.wifi, clock: StoppedClock()) { network in
      let connection = try Connection()
      let watch = try self.guarded(connection, network, shutsDown: true)
      try await network.waitForFlows(atLeast: 1)
      watch.end()
      let other = try Connection()
      let witness = try self.guarded(other, network)
      for await event in witness.events {
        if case .pathChanged = event { network.become(.cellular) }
        if case .invalidated = event { break }
      }
      for await event in watch.events { if case .invalidated = event { Issue.record("\(event)") } }
      #expect(!connection.hasEnded)
    }
  }

  @Test("C10 C7 an unguarded connection gets the reason")
  func unguarded() async throws {
    let connection = try Connection()
    let local = try SocketGuard(descriptor: connection.descriptor)
    var reasons: [ConndError.Code] = []
    for await case .unguarded(let why) in local.events { reasons.append(why.code) }
    #expect(reasons == [.notGuardable])

    let alone = try SocketGuard(
      descriptor: connection.descriptor,
      config: .defaults {
        $0.socket = ConndSocket(path: "/nonexistent/connd.sock", guardsLoopback: true)
      })
    var events = alone.events.makeAsyncIterator()
    guard case .unguarded(let why) = await events.next() else { Issue.record("guarded"); return }
    #expect(why.code == .notAvailable)
    #expect(why.description.contains("/nonexistent/connd.sock"))
    #expect(!connection.hasEnded)
  }

  @Test("C10 a descriptor that is not a connection is refused, with the reason")
  func refused() throws {
    let descriptors = [
      -1, open("/dev/null", O_RDONLY), socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0),
    ]
    for descriptor in descriptors {
      let failure = #expect(throws: ConndError.self) {
        _ = try SocketGuard(descriptor: descriptor)
      }
      #expect(failure?.code == .notGuardable)
      #expect(failure?.description.hasPrefix("descriptor \(descriptor): getpeername: ") == true)
      if descriptor >= 0 { close(descriptor) }
    }
    var pair: [CInt] = [0, 0]
    #expect(socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0, &pair) == 0)
    let failure = #expect(throws: ConndError.self) {
      _ = try SocketGuard(descriptor: pair[0])
    }
    #expect(failure?.description.hasSuffix("is not an IPv4 or IPv6 socket") == true)
    for descriptor in pair { close(descriptor) }
  }
}
