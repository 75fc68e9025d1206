import Connectivity
import ConnectivityClient
import ConnectivityMonitor
import ConnectivityTestKit
import GRPCCore
import GRPCNIOTransportHTTP2Posix
import Testing

/// The events and states that a channel reports to the application.
@Suite("Events of a channel", .timeLimit(.minutes(5)), .namesWaits)
struct ChannelEventTests {
  private static func word(for event: ConnectionEvent) -> String {
    switch event {
    case .pathChanged(let path): "path \(path.interface ?? "nothing")"
    case .viable: "viable"
    case .notViable(.path(let reason)): "not viable: \(reason?.rawValue ?? "unknown")"
    case .notViable(.invalidated(let reason)): "not viable: \(reason.rawValue)"
    case .betterPathAvailable: "better path"
    case .betterPathGone: "no better path"
    case .invalidated(let invalidation): invalidation.severity.rawValue
    case .asked: "asked"
    case .unguarded: "unguarded"
    }
  }

  @Test("C2 a connection loses its network → the channel reports it, and the path of the next one")
  func replaced() async throws {
    try await playingNetwork { network, client, transport, _ in
      let events = transport.events
      _ = try await client.echo()
      try await network.waitForFlows(atLeast: 1)
      network.become(.cellular)
      for await state in transport.connectivityStates where state == .transientFailure { break }
      _ = try await client.echo()
      var late = transport.events.makeAsyncIterator()
      await #expect(late.next().map(Self.word) == "path wwan0")
      transport.beginGracefulShutdown()
      let words = await events.reduce(into: []) { $0.append(Self.word(for: $1)) }
      #expect(
        words == [
          "path wlan0", "destroy", "not viable: interfaceLost", "path wwan0", "viable",
        ])
    }
  }

  @Test("C7 connd is not running → the channel reports it, also to a later reader")
  func absent() async throws {
    try await EchoServer.serving { port, _ in
      var config = NetworkAwareTransport.Config.defaults
      config.socket = ConndSocket(path: "/nonexistent/connd.sock", guardsLoopback: true)
      try await withChannel(to: .ipv4(address: "127.0.0.1", port: port), config: config) {
        client, transport in
        var events = transport.events.makeAsyncIterator()
        _ = try await client.echo()
        await #expect(events.next().map(Self.word) == "unguarded")
        var late = transport.events.makeAsyncIterator()
        await #expect(late.next().map(Self.word) == "unguarded")
      }
    }
  }

  @Test("I10 a path is lost and returns within the grace period → the channel reports both")
  func grace() async throws {
    try await playingNetwork { network, client, transport, _ in
      var events = transport.events.makeAsyncIterator()
      _ = try await client.echo()
      try await network.waitForFlows(atLeast: 1)
      network.become(.wifi.failing(.noCarrier))
      var words: [String] = []
      while words.last != "viable", let event = await events.next() {
        words.append(Self.word(for: event))
        if words.last == "not viable: noCarrier" { network.become(.wifi) }
      }
      #expect(words.contains("not viable: noCarrier") && words.last == "viable")
      #expect(!words.contains("destroy"))
    }
  }

  @Test("C2 a better path appears and a kept connection stays → the channel reports it")
  func betterPath() async throws {
    try await playingNetwork {
      $0.onInvalidation = .custom { _ in .keep }
    } _: { network, client, transport, _ in
      var events = transport.events.makeAsyncIterator()
      _ = try await client.echo()
      try await network.waitForFlows(atLeast: 1)
      network.invalidate(.betterPath, .destroy)
      var words: [String] = []
      while words.last != "better path", let event = await events.next() {
        words.append(Self.word(for: event))
      }
      #expect(words.last == "better path")
      var late = transport.events.makeAsyncIterator()
      await #expect(late.next().map(Self.word) == "path wlan0")
      #expect(transport.connectivityState == .ready)
    }
  }

  /// Runs tasks on one thread of its own.
  private final class Desk: TaskExecutor {
    private let queue = AsyncStream.makeStream(of: UnownedJob.self)

    func enqueue(_ job: consuming ExecutorJob) { self.queue.continuation.yield(UnownedJob(job)) }

    /// Runs the jobs of the executor on the caller's thread, until the task is cancelled.
    func work() async {
      for await job in self.queue.stream { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
  }

  @Test("C9 the states' observer runs on its executor → a blocked one delays no call")
  func executor() async throws {
    let desk = Desk()
    let (states, state) = AsyncStream.makeStream(of: ConnectivityState.self)
    let worker = try await EchoServer.serving { port, _ in
      var config = NetworkAwareTransport.Config.defaults
      config.socket = "/nonexistent/connd.sock"
      config.onConnectivityStateChange = { state.yield($0) }
      config.connectivityStateExecutor = desk
      return try await withChannel(
        to: .ipv4(address: "127.0.0.1", port: port), config: config
      ) { client, transport in
        // Nothing runs the executor yet.
        _ = try await client.echo()
        #expect(transport.connectivityState == .ready)
        return Task { await desk.work() }
      }
    }
    worker.cancel()
    state.finish()
    let observed = await states.reduce(into: []) { $0.append($1) }
    #expect(observed == [.connecting, .ready, .shutdown])
  }

  @Test("C9 the states' observer is blocked → a cancelled channel ends")
  func blockedExecutor() async throws {
    let desk = Desk()
    try await EchoServer.serving { port, record in
      var config = NetworkAwareTransport.Config.defaults
      config.socket = "/nonexistent/connd.sock"
      config.onConnectivityStateChange = { _ in }
      config.connectivityStateExecutor = desk
      let application = Task { [config] in
        try await withChannel(to: .ipv4(address: "127.0.0.1", port: port), config: config) {
          client, _ in try await client.echo(EchoServer.hang)
        }
      }
      try await record.reach(1)
      application.cancel()
      await #expect(throws: (any Error).self) { try await application.value }
    }
  }
}
