import ConnectivityClient
import ConnectivityTestKit
import GRPCCore
import GRPCNIOTransportHTTP2Posix
import NIOCore
import NIOPosix
import Synchronization
import Testing

/// The attempts of a channel to connect.
@Suite("Attempts to connect", .timeLimit(.minutes(5)), .namesWaits)
struct ChannelAttemptTests {
  @Test("C4 one of several addresses is ready → the guards of failed addresses end")
  func losers() async throws {
    let closed = try (0..<3).map { _ in try SilentListener(isListening: false) }
    try await withSimulatedNetwork(.wifi, clock: StoppedClock()) { network in
      try await EchoServer.serving { port, _ in
        var config = NetworkAwareTransport.Config.defaults
        config.socket = network.socket
        let pairs = closed.map { ("127.0.0.1", $0.port) } + [("127.0.0.1", port)]
        try await withChannel(to: .ipv4(pairs: pairs), config: config) { client, _ in
          _ = try await client.echo()
          // The removals reach connd a moment later.
          try await takeTurns(until: "one guarded flow") { network.guardedFlows.count == 1 }
        }
      }
    }
  }

  /// The longest time between two turns of an event loop.
  private final class LongestStop: Sendable {
    private let last = Mutex(ContinuousClock.now)
    private let longest = Mutex(Duration.zero)

    var duration: Duration { self.longest.withLock { $0 } }

    func turn() {
      let stop = self.last.withLock { last in
        defer { last = .now }
        return last.duration(to: .now)
      }
      self.longest.withLock { $0 = max($0, stop) }
    }
  }

  @Test("C2 reading the certificates for TLS does not stop the event loop")
  func certificates() async throws {
    let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    try await EchoServer.serving(security: Certificate.server) { port, _ in
      let start = ContinuousClock.now
      let transport = try NetworkAwareTransport(
        target: .ipv4(address: "127.0.0.1", port: port),
        transportSecurity: Certificate.client(parsing: 5000), eventLoopGroup: group)
      // A new channel reads them, too, to find errors.
      let reading = start.duration(to: .now)
      let stop = LongestStop()
      let turns = group.next().scheduleRepeatedTask(
        initialDelay: .zero, delay: .milliseconds(1)
      ) { _ in stop.turn() }
      try await withGRPCClient(transport: transport) { client in
        _ = try await client.echo()
      }
      turns.cancel()
      #expect(stop.duration < reading / 2, "\(stop.duration) of \(reading)")
    }
    try await group.shutdownGracefully()
  }

  private struct NoStream: Error {}

  @Test("C6 connections on which no stream can be opened → the call fails after five of them")
  func streams() async throws {
    let connections = Counter()
    // The connections with a stream.
    let used = Mutex<[any Channel]>([])
    var config = NetworkAwareTransport.Config.defaults
    config.backoff.initial = .milliseconds(1)
    config.backoff.max = .milliseconds(1)
    config.channelDebuggingCallbacks.onCreateTCPConnection = { channel in
      // The end of an endless loop, so that the test fails instead.
      connections.increase() > 20
        ? channel.eventLoop.makeFailedFuture(NoStream())
        : channel.eventLoop.makeSucceededVoidFuture()
    }
    config.channelDebuggingCallbacks.onCreateHTTP2Stream = { stream in
      guard let connection = stream.parent else {
        return stream.eventLoop.makeFailedFuture(NoStream())
      }
      // The first shows that the connection is ready.
      let isFirst = used.withLock { used in
        if used.contains(where: { $0 === connection }) { return false }
        used.append(connection)
        return true
      }
      return isFirst
        ? stream.eventLoop.makeSucceededVoidFuture() : stream.eventLoop.makeFailedFuture(NoStream())
    }
    try await EchoServer.serving { [config] port, record in
      try await withChannel(to: .ipv4(address: "127.0.0.1", port: port), config: config) {
        client, _ in
        let error = try await failure { try await client.echo() }
        #expect(error?.code == .unavailable)
        #expect(connections.count == 5)
      }
      #expect(record.calls.isEmpty)
    }
  }
}
