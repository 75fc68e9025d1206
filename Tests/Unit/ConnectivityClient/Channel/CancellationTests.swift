import ConnectivityClient
import ConnectivityTestKit
import GRPCCore
import GRPCNIOTransportHTTP2Posix
import TestKit
import Testing

/// Applications that cancel their tasks.
@Suite("Cancelled calls and channels", .timeLimit(.minutes(5)), .namesWaits)
struct CancellationTests {
  /// gRPC's status, or `cancelled` for Swift's error.
  private func code(_ result: Result<Void, any Error>) -> RPCError.Code? {
    guard case .failure(let error) = result else { return nil }
    return error is CancellationError ? .cancelled : (error as? RPCError)?.code
  }

  @Test(
    "a call is cancelled in any state → it ends, and so does the channel",
    arguments: EndlessCall.State.allCases)
  func call(state: EndlessCall.State) async throws {
    try await EndlessCall.reaching(state) { endless in
      try await endless.run { client in
        let call = Task { try await endless.call(client) }
        try await endless.reached()
        call.cancel()
        let result = await call.result
        #expect(self.code(result) == .cancelled, "\(result)")
      }
    }
  }

  @Test(
    "an application is cancelled while a call is in any state → both end",
    arguments: EndlessCall.State.allCases)
  func application(state: EndlessCall.State) async throws {
    try await EndlessCall.reaching(state) { endless in
      let application = Task { try await endless.run { try await endless.call($0) } }
      try await endless.reached()
      application.cancel()
      let result = await application.result
      #expect(self.code(result) != nil, "\(result)")
    }
  }

  @Test(
    "a client's connections are cancelled while a call is in any state → both end",
    arguments: EndlessCall.State.allCases)
  func connections(state: EndlessCall.State) async throws {
    try await EndlessCall.reaching(state) { endless in
      let client = GRPCClient(transport: try endless.transport())
      let connections = Task { try await client.runConnections() }
      let call = Task { try await endless.call(client) }
      try await endless.reached()
      connections.cancel()
      try await connections.value
      let result = await call.result
      #expect(self.code(result) == .unavailable, "\(result)")
    }
  }

  @Test(
    "applications are cancelled at random moments on the way to a state → all end",
    arguments: EndlessCall.State.allCases)
  func moments(state: EndlessCall.State) async throws {
    try await EndlessCall.reaching(state) { endless in
      var random = SeededGenerator(seed: 7)
      for round in 0..<100 {
        let application = Task { try await endless.run { try await endless.call($0) } }
        for _ in 0..<random.number(0...round * 30) { await Task.yield() }
        application.cancel()
        await #expect(throws: (any Error).self) { try await application.value }
      }
    }
  }
}
