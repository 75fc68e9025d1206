import Connectivity
import ConnectivityClient
import ConnectivityTestKit
import GRPCCore
import GRPCNIOTransportHTTP2Posix
import Synchronization
import Testing

/// connd is absent, refuses, or is none.
@Suite("Channels that connd does not guard", .timeLimit(.minutes(5)))
struct UnguardedChannelTests {
  @Test("C7 connd may come late, go, and come again")
  func absent() async throws {
    let calls = LogRecorder()
    try await playingNetwork {
      $0.calls = CallSettings(logger: calls.logger)
    } _: { network, client, _, record in
      await network.stop()
      let call = await hangingCall(client, record)
      try await network.start()
      try await network.waitForFlows(atLeast: 1)
      network.become(.cellular)
      let error = try await call.value
      #expect(error?.invalidation != nil)
      // The channel knows on which path it is.
      repeat { _ = try await client.echo() } while !calls.lines.contains { $0.contains("wwan0") }
      let next = await hangingCall(client, record)
      await network.stop()
      network.become(.wired)
      try await network.start()
      // What happened meanwhile is not lost.
      let late = try await next.value
      #expect(late?.invalidation != nil)
    }
  }

  @Test("a flow that connd refuses leaves a plain channel, and the log says why")
  func refused() async throws {
    let log = LogRecorder()
    try await playingNetwork {
      $0.backgroundActivityLogger = log.logger
    } _: { network, client, _, record in
      network.refusesFlows = "too many flows"
      let answer = try await client.echo()
      #expect(answer == "hello")
      network.become(.cellular)
      let again = try await client.echo()
      #expect(again == "hello")
      #expect(record.calls == ["Get", "Get"])
      // Calls wait for connd's answer only so long.
      await log.wait { $0.contains("warning") && $0.contains("too many flows") }
    }
  }

  @Test(
    "C7 a connd that speaks garbage, another language or not at all leaves a plain channel, and the log says why",
    arguments: Stranger.Kind.allCases)
  func stranger(kind: Stranger.Kind) async throws {
    let log = LogRecorder()
    try await Stranger.serving(kind) { socket in
      try await EchoServer.serving { port, record in
        var config = NetworkAwareTransport.Config.defaults
        config.guardsLoopback = true
        config.socket = socket
        config.backgroundActivityLogger = log.logger
        try await withChannel(to: .ipv4(address: "127.0.0.1", port: port), config: config) {
          client, _ in
          let answer = try await client.echo()
          #expect(answer == "hello")
          await log.wait { $0.contains("connd") && $0.contains("not guarded") }
        }
        #expect(record.calls == ["Get"])
      }
    }
  }
}
