import Connectivity
import ConnectivityProtocol
import Synchronization
import Testing

@testable import ConnectivityClient
@testable import ConnectivityMonitor

/// With a connd behind a Unix socket. That something is not reported is proven by the unit tests
/// ``PathTellerTests`` and ``PathBacklogTests``; here it could only come later.
@Suite("Path monitor", .timeLimit(.minutes(1)), .namesWaits)
struct PathMonitorTests {
  private static let wifi = PathSample.status(PathSample.wifi)
  private static let cellular = PathSample.status(PathSample.cellular)
  private static let offline = PathSample.status(PathSample.noCarrier)
  /// Longer than any test.
  private static let forever: Duration = .seconds(3_600)

  private static func system(
    _ socket: ConndSocket, maxWait: Duration = Self.forever
  ) -> PathSubscription {
    PathMonitor(.system, socket: socket, maxWait: maxWait).makeAsyncIterator().subscription
  }

  @Test("the present path comes first, then each change, in order")
  func changes() async throws {
    try await PathConnd.withSocket { socket in
      try await PathConnd.serving(socket) { connd in
        let paths = Self.system(socket)
        let call = try #require(await connd.watches.next())
        #expect(Set(call.request.events) == [.transition, .path, .dns])
        call.send(.snapshot(17, Self.wifi))
        #expect(await paths.next() == NetworkPath(Self.wifi))
        call.send(.transition(18, from: .wifi, to: Self.offline))
        #expect(await paths.next() == NetworkPath(Self.offline))
        call.send(.transition(19, from: .offline, to: Self.cellular))
        #expect(await paths.next() == NetworkPath(Self.cellular))
        let both = PathSample.status(PathSample.cellular, PathSample.wifi6)
        call.send(.path(20, both))
        #expect(await paths.next() == NetworkPath(both))
      }
    }
  }

  @Test("C7 connd is in another network namespace → as if absent, until a connd in this one comes")
  func otherNamespace() async throws {
    try await PathConnd.withSocket { socket in
      let address = try #require(IPAddress("203.0.113.9"))
      /// They begin while a connd listens. Otherwise they would report its absence first.
      struct Followers {
        let system: PathSubscription
        let host: PathSubscription
        let statuses: StatusStream.AsyncIterator

        init(_ socket: ConndSocket, _ address: IPAddress) {
          self.system = PathMonitorTests.system(socket)
          self.host =
            PathMonitor(
              .destination(address, mark: 0), socket: socket, maxWait: PathMonitorTests.forever
            ).makeAsyncIterator().subscription
          self.statuses = StatusStream(socket: socket, since: 4, events: [.path, .dns])
            .makeAsyncIterator()
        }
      }
      var followers: Followers?
      func serve(_ namespace: UInt64) async throws {
        try await PathConnd.serving(socket, in: namespace, answers: nil) { connd in
          let present = followers ?? Followers(socket, address)
          followers = present
          let (system, host) = (present.system, present.host)
          let events = present.statuses.subscription.events
          for _ in 0..<2 {
            let call = try #require(await connd.watches.next())
            // A resumed stream may begin with a change that does not name the namespace.
            if call.request.hasSinceGeneration {
              #expect(call.request.sinceGeneration == 4)
              call.send(.servers(5, "192.0.2.\(namespace % 200)"))
            } else {
              call.send(.snapshot(4, Self.wifi))
              call.send(.path(6, Self.cellular))
            }
          }
          let call = try #require(await connd.pathWatches.next())
          call.send(Connectivity_V1_WatchPathResponse(PathSample.wifi))
          guard namespace == ProcessNamespace.own else {
            #expect(await system.next() == .unknown)
            #expect(await host.next() == .unknown)
            let event = await events.next(isolation: nil)
            guard case .disconnected(let error) = event else {
              Issue.record("\(String(describing: event))")
              return
            }
            #expect(error.code == .otherNamespace)
            return
          }
          #expect(await host.next() == NetworkPath(PathSample.wifi, family: .ipv4))
          while let path = await system.next(), path != NetworkPath(Self.cellular) {}
          #expect(await events.next(isolation: nil) == .resumed(after: 4))
          guard case .change(.dns(let change)) = await events.next(isolation: nil) else {
            Issue.record("no change")
            return
          }
          #expect(change.settings.servers.map(\.description) == ["192.0.2.\(namespace % 200)"])
        }
      }
      let own = try #require(ProcessNamespace.own)
      try await serve(own + 1)
      try await serve(own)
    }
  }

  @Test(
    "D4 monitors, streams and guards share one connection, and a new one after connd was away"
  )
  func shared() async throws {
    try await PathConnd.withSocket { socket in
      // Holding the hub keeps the guard.
      let hub = GuardHub(socket: socket.path)
      let address = try #require(IPAddress("203.0.113.9"))
      let watcher = GuardHub.Watcher(onEvent: { _ in }, onAbsence: { _ in })
      let guarded = hub.watch(FlowGuard.Flow(remote: address), watcher)
      let system = (0..<3).map { _ in Self.system(socket) }
      let host = PathMonitor(.destination(address, mark: 0), socket: socket, maxWait: Self.forever)
        .makeAsyncIterator().subscription
      let stream = Task { for await _ in StatusStream(socket: socket) {} }
      defer { stream.cancel() }
      for _ in 0..<2 {
        let (requests, request) = AsyncStream.makeStream(of: Void.self)
        try await PathConnd.serving(
          socket,
          answer: { _ in
            request.yield()
            return nil
          }
        ) { connd in
          for _ in 0...system.count {
            let call = try #require(await connd.watches.next())
            call.send(.snapshot(17, Self.wifi))
          }
          let call = try #require(await connd.pathWatches.next())
          call.send(Connectivity_V1_WatchPathResponse(PathSample.wifi))
          for await _ in requests { break }
          #expect(connd.connections.withLock(\.count) == 1)
        }
      }
      withExtendedLifetime((guarded, host)) {}
    }
  }

  @Test("C8 a network that the application may not use is reported as none, with the reason")
  func access() async throws {
    try await PathConnd.withSocket { socket in
      try await PathConnd.serving(socket) { connd in
        let paths = PathMonitor(
          .system, access: .inexpensive, socket: socket, maxWait: Self.forever
        ).makeAsyncIterator().subscription
        let call = try #require(await connd.watches.next())
        call.send(.snapshot(17, Self.cellular))
        let forbidden = await paths.next()
        #expect(forbidden?.status == .unsatisfied && forbidden?.isOnline == false)
        #expect(forbidden?.refusal?.reason == .expensive)
        call.send(.transition(18, from: .cellular, to: Self.wifi))
        #expect(await paths.next() == NetworkPath(Self.wifi))
      }
    }
  }

  @Test("T2 a bounce is reported as a loss in between, even if both ends are equal")
  func bounce() async throws {
    try await PathConnd.withSocket { socket in
      try await PathConnd.serving(socket) { connd in
        let paths = Self.system(socket)
        let call = try #require(await connd.watches.next())
        call.send(.snapshot(17, Self.wifi))
        #expect(await paths.next() == NetworkPath(Self.wifi))
        call.send(.transition(18, from: .wifi, to: Self.wifi, bounced: true))
        #expect(await paths.next() == .interrupted)
        #expect(await paths.next() == NetworkPath(Self.wifi))
      }
    }
  }

  @Test("a repeated path is not reported again")
  func repetition() async throws {
    try await PathConnd.withSocket { socket in
      try await PathConnd.serving(socket) { connd in
        let paths = Self.system(socket)
        let call = try #require(await connd.watches.next())
        call.send(.snapshot(17, Self.wifi))
        #expect(await paths.next() == NetworkPath(Self.wifi))
        async let next = paths.next()
        call.send(.path(18, Self.wifi))
        call.send(.transition(19, from: .wifi, to: Self.cellular))
        #expect(await next == NetworkPath(Self.cellular))
      }
    }
  }

  @Test("C7 without connd the path is unknown, and connd is found when it starts")
  func absence() async throws {
    try await PathConnd.withSocket { socket in
      let paths = PathMonitor(socket: socket).makeAsyncIterator().subscription
      #expect(await paths.next() == .unknown)
      try await PathConnd.serving(socket) { connd in
        let call = try #require(await connd.watches.next())
        call.send(.snapshot(17, Self.wifi))
        #expect(await paths.next() == NetworkPath(Self.wifi))
      }
    }
  }

  @Test("C7 while connd is silent the path is unknown")
  func silence() async throws {
    try await PathConnd.withSocket { socket in
      try await PathConnd.serving(socket) { connd in
        let paths = Self.system(socket, maxWait: .milliseconds(20))
        let call = try #require(await connd.watches.next())
        #expect(await paths.next() == .unknown)
        call.send(.snapshot(17, Self.wifi))
        #expect(await paths.next() == NetworkPath(Self.wifi))
      }
    }
  }

  @Test("C7 a restart of connd is not visible, and changes in between are reported")
  func restart() async throws {
    try await PathConnd.withSocket { socket in
      let (told, continuation) = AsyncStream.makeStream(of: NetworkPath.self)
      // Reads as soon as there is something, because an unread path may be replaced by a later one.
      let reader = Task {
        for await path in PathMonitor(.system, socket: socket, maxWait: Self.forever) {
          continuation.yield(path)
        }
      }
      defer { reader.cancel() }
      var paths = told.makeAsyncIterator()
      #expect(await paths.next() == .unknown)
      try await PathConnd.serving(socket) { connd in
        try #require(await connd.watches.next()).send(.snapshot(17, Self.wifi))
        #expect(await paths.next() == NetworkPath(Self.wifi))
      }
      try await PathConnd.serving(socket) { connd in
        let call = try #require(await connd.watches.next())
        #expect(call.request.sinceGeneration == 17)
        call.send(.transition(18, from: .wifi, to: Self.cellular))
        #expect(await paths.next() == NetworkPath(Self.cellular))
      }
    }
  }

  @Test("C7 connd stays away → the path becomes unknown; connd is back → the path is as before")
  func longAbsence() async throws {
    try await PathConnd.withSocket { socket in
      let paths = Self.system(socket, maxWait: .milliseconds(20))
      #expect(await paths.next() == .unknown)
      try await PathConnd.serving(socket) { connd in
        try #require(await connd.watches.next()).send(.snapshot(17, Self.wifi))
        #expect(await paths.next() == NetworkPath(Self.wifi))
      }
      #expect(await paths.next() == .unknown)
      try await PathConnd.serving(socket) { connd in
        let call = try #require(await connd.watches.next())
        // Nothing happened in between, so connd reports nothing.
        #expect(call.request.sinceGeneration == 17)
        #expect(await paths.next() == NetworkPath(Self.wifi))
      }
    }
  }

  @Test("a gap is followed by the present path")
  func gap() async throws {
    try await PathConnd.withSocket { socket in
      try await PathConnd.serving(socket) { connd in
        let paths = Self.system(socket)
        let call = try #require(await connd.watches.next())
        call.send(.snapshot(17, Self.wifi))
        #expect(await paths.next() == NetworkPath(Self.wifi))
        call.send(.gap(PathSample.snapshot(20, Self.cellular, since: 9)))
        #expect(await paths.next() == NetworkPath(Self.cellular))
      }
    }
  }

  @Test("the path to a destination, in its family, survives a restart of connd")
  func destination() async throws {
    let destination = try #require(IPAddress("2001:db8::9"))
    try await PathConnd.withSocket { socket in
      let monitor = PathMonitor(
        .destination(destination, mark: 7), socket: socket, maxWait: Self.forever)
      let paths = monitor.makeAsyncIterator().subscription
      #expect(await paths.next() == .unknown)
      try await PathConnd.serving(socket) { connd in
        let call = try #require(await connd.pathWatches.next())
        #expect(call.request.destination == "2001:db8::9")
        #expect(call.request.mark == 7)
        call.send(.init(PathSample.wifi6))
        #expect(await paths.next() == NetworkPath(PathSample.wifi6, family: .ipv6))
        call.send(.init(PathSample.none))
        #expect(await paths.next() == NetworkPath(PathSample.none, family: .ipv6))
      }
      try await PathConnd.serving(socket) { connd in
        let call = try #require(await connd.pathWatches.next())
        call.send(.init(PathSample.wifi6))
        #expect(await paths.next() == NetworkPath(PathSample.wifi6, family: .ipv6))
      }
    }
  }

  @Test(
    "an invalid path from connd → unknown; traffic has no mark unless given"
  )
  func nonsense() async throws {
    let destination = try #require(IPAddress("192.0.2.9"))
    try await PathConnd.withSocket { socket in
      try await PathConnd.serving(socket) { connd in
        let paths = PathMonitor(destination: destination, socket: socket)
          .makeAsyncIterator().subscription
        let call = try #require(await connd.pathWatches.next())
        #expect(!call.request.hasMark)
        var response = Connectivity_V1_WatchPathResponse(PathSample.wifi)
        response.path.gateway = "the router"
        call.send(response)
        #expect(await paths.next() == .unknown)
        // It is requested again.
        try #require(await connd.pathWatches.next()).send(.init(PathSample.wifi))
        #expect(await paths.next() == NetworkPath(PathSample.wifi, family: .ipv4))
      }
    }
  }

  @Test("the current path is read once, with connd and without")
  func current() async throws {
    try await PathConnd.withSocket { socket in
      let monitor = PathMonitor(.system, socket: socket, maxWait: Self.forever)
      #expect(await monitor.currentPath == .unknown)
      try await PathConnd.serving(socket) { connd in
        async let path = monitor.currentPath
        let call = try #require(await connd.watches.next())
        call.send(.snapshot(17, Self.wifi))
        #expect(await path == NetworkPath(Self.wifi))
        await call.hangUp()
      }
    }
  }

  @Test("each iterator has its own stream, which ends with it")
  func iterators() async throws {
    try await PathConnd.withSocket { socket in
      try await PathConnd.serving(socket) { connd in
        let monitor = PathMonitor(.system, socket: socket, maxWait: Self.forever)
        var first: PathMonitor.AsyncIterator? = monitor.makeAsyncIterator()
        let firstCall = try #require(await connd.watches.next())
        var second = monitor.makeAsyncIterator()
        let secondCall = try #require(await connd.watches.next())
        firstCall.send(.snapshot(17, Self.wifi))
        #expect(await first?.next() == NetworkPath(Self.wifi))
        first = nil
        await firstCall.hangUp()
        secondCall.send(.snapshot(18, Self.cellular))
        #expect(await second.next() == NetworkPath(Self.cellular))
      }
    }
  }

  @Test("cancelling the task ends the sequence and the connection")
  func cancellation() async throws {
    let destination = try #require(IPAddress("192.0.2.9"))
    try await PathConnd.withSocket { socket in
      try await PathConnd.serving(socket) { connd in
        let monitor = PathMonitor(
          .destination(destination, mark: 0), socket: socket, maxWait: Self.forever)
        let (told, continuation) = AsyncStream.makeStream(of: NetworkPath.self)
        let (ends, end) = AsyncStream.makeStream(of: Never.self)
        let task = Task {
          var paths = monitor.makeAsyncIterator()
          while let path = await paths.next() { continuation.yield(path) }
          // A cancelled task can only wait in another one.
          await Task { for await _ in ends {} }.value
          return await paths.next()
        }
        let call = try #require(await connd.pathWatches.next())
        call.send(.init(PathSample.wifi))
        #expect(await told.first { _ in true } == NetworkPath(PathSample.wifi, family: .ipv4))
        task.cancel()
        // Although the iterator still exists.
        await call.hangUp()
        end.finish()
        #expect(await task.value == nil)
      }
    }
  }

  @Test("a task cancelled beforehand gets nothing")
  func cancelledBefore() async throws {
    try await PathConnd.withSocket { socket in
      let task = Task { () -> [NetworkPath] in
        withUnsafeCurrentTask { $0?.cancel() }
        var paths: [NetworkPath] = []
        for await path in PathMonitor(socket: socket) { paths.append(path) }
        return paths
      }
      #expect(await task.value == [])
    }
  }
}
