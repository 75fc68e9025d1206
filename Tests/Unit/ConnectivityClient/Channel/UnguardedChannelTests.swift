import Connectivity
import ConnectivityClient
import ConnectivityTestKit
import GRPCCore
import GRPCNIOTransportHTTP2Posix
import Synchronization
import Testing

/// connd is absent, refuses, or is another program.
@Suite("Unguarded channels", .timeLimit(.minutes(5)), .namesWaits)
struct UnguardedChannelTests {
  @Test("C7 connd may start late, stop, and start again")
  func absent() async throws {
    let calls = LogRecorder()
    try await playingNetwork {
      $0.calls = CallSettings(logger: calls.logger)
    } _: { network, client, _, record in
      await network.stop()
      let call = try await hangingCall(client, record)
      try await network.start()
      try await network.waitForFlows(atLeast: 1)
      network.become(.cellular)
      let error = try await call.value
      #expect(error?.invalidation != nil)
      // The channel knows its path.
      repeat { _ = try await client.echo() } while !calls.lines.contains { $0.contains("wwan0") }
      let next = try await hangingCall(client, record)
      await network.stop()
      network.become(.wired)
      try await network.start()
      // A change in between is not lost.
      let late = try await next.value
      #expect(late?.invalidation != nil)
    }
  }

  @Test("connd refuses a flow → a plain channel, and the log has the reason")
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
      // Calls wait only briefly for connd's answer.
      try await log.wait { $0.contains("warning") && $0.contains("too many flows") }
    }
  }

  @Test(
    "C7 connd's socket answers with garbage, another protocol or nothing → a plain channel, and the log has the reason",
    arguments: Stranger.Kind.allCases)
  func stranger(kind: Stranger.Kind) async throws {
    let log = LogRecorder()
    try await Stranger.serving(kind) { socket in
      try await EchoServer.serving { port, record in
        var config = NetworkAwareTransport.Config.defaults
        config.socket = socket
        config.backgroundActivityLogger = log.logger
        try await withChannel(to: .ipv4(address: "127.0.0.1", port: port), config: config) {
          client, _ in
          let answer = try await client.echo()
          #expect(answer == "hello")
          try await log.wait { $0.contains("connd") && $0.contains("not guarded") }
        }
        #expect(record.calls == ["Get"])
      }
    }
  }
}
