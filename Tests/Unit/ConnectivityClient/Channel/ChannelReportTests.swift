import Connectivity
import ConnectivityTestKit
import GRPCCore
import GRPCNIOTransportHTTP2Posix
import Synchronization
import Testing

@testable import ConnectivityClient

/// The reports of a channel: to a log, to swift-metrics, and for spans.
@Suite("Reports of channels", .timeLimit(.minutes(5)), .namesWaits)
struct ChannelReportTests {
  @Test("C9 the server resets a connection → the background log has the error and the connection")
  func broken() async throws {
    let log = LogRecorder()
    var config = PlainChannelTests.config
    config.backgroundActivityLogger = log.logger
    try await EchoServer.serving { [config] port, record in
      try await withChannel(to: .ipv4(address: "127.0.0.1", port: port), config: config) {
        client, _ in
        let call = try await hangingCall(client, record)
        record.resetConnections()
        let error = try await call.value
        #expect(error?.code == .unavailable)
        try await log.wait { $0.contains("the connection broke") }
      }
    }
    let broken = try #require(log.lines.first { $0.contains("the connection broke") })
    #expect(broken.contains("reset by peer"))
    let name = try #require(broken.firstMatch(of: /grpc_connection_id=([0-9a-f-]{36})/)?.1)
    let ready = try #require(log.lines.first { $0.contains("state=ready") })
    #expect(ready.contains(name))
  }

  @Test("C9 an attempt fails → the background log names the attempted connection")
  func failed() async throws {
    let log = LogRecorder()
    var config = PlainChannelTests.config
    config.backgroundActivityLogger = log.logger
    let nobody = try SilentListener(isListening: false)
    try await withChannel(to: .ipv4(address: "127.0.0.1", port: nobody.port), config: config) {
      client, _ in
      _ = try await failure { try await client.echo() }
    }
    let line = try #require(log.lines.first { $0.contains("the attempt failed") })
    #expect(line.contains("grpc_connection_id=") && line.contains("refused"))
  }

  @Test("C2 invalidations, refusals and the time to reconnect are measured")
  func measured() async throws {
    let metrics = MetricsRecorder()
    try await playingNetwork {
      $0.metricsFactory = metrics
    } _: { network, client, _, record in
      let call = try await hangingCall(client, record)
      try await network.waitForFlows(atLeast: 1)
      network.become(.cellular)
      _ = try await call.value
      _ = try await client.echo()
      try await withCallSettings {
        $0.access = NetworkAccess(prohibitedMedia: [.cellular])
      } operation: {
        let error = try await failure { try await client.echo() }
        #expect(error != nil)
      }
    }
    let lines = metrics.lines
    #expect(
      lines.first == "connectivity_client_invalidations reason=interfaceLost severity=destroy 1")
    #expect(lines.contains("connectivity_client_refusals reason=cellular 1"))
    #expect(lines.contains { $0.hasSuffix("grpc.disconnect_error=connd interfaceLost 1") })
    let times = lines.compactMap { $0.wholeMatch(of: /connectivity_client_reconnect (\d+)/)?.1 }
    #expect(times.count == 1 && times.allSatisfy { Int64($0) ?? 0 > 0 })
  }

  @Test("C9 a call gets a connection → `onConnection` receives the path, for a span")
  func told() async throws {
    let paths = Mutex<[KernelPath?]>([])
    try await playingNetwork {
      $0.calls.onConnection = { path in paths.withLock { $0.append(path) } }
    } _: { network, client, _, _ in
      repeat { _ = try await client.echo() } while paths.withLock { $0.last??.interface } == nil
    }
    let path = try #require(paths.withLock { $0.last } ?? nil)
    #expect(
      path.openTelemetryAttributes
        == ["network.connection.type": "wifi", "network.interface.name": "wlan0"])
  }

  private static let start = ContinuousClock.now

  @Test(
    "the time to reconnect runs from the first attempt after a loss",
    arguments: [
      ([.connecting, .ready], [nil, nil]),
      ([.connecting, .ready, .transientFailure, .connecting, .ready], [nil, nil, nil, nil, 1]),
      ([.connecting, .ready, .idle, .connecting, .ready], [nil, nil, nil, nil, 1]),
      (
        [.connecting, .ready, .connecting, .transientFailure, .connecting, .ready],
        [nil, nil, nil, nil, nil, 3]
      ),
      (
        [.connecting, .ready, .connecting, .idle, .connecting, .ready],
        [nil, nil, nil, nil, nil, 1]
      ),
    ] as [([ConnectivityState], [Int?])])
  func reconnect(states: [ConnectivityState], seconds: [Int?]) {
    var timer = ReconnectTimer()
    let times = states.enumerated().map { second, state in
      timer.report(state, now: Self.start + .seconds(second))
    }
    #expect(times == seconds.map { $0.map { .seconds($0) } })
  }
}
