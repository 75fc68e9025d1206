import AsyncHTTPClient
import ConnectivityClient
import ConnectivityTestKit
import NIOCore
import Testing

/// Guards the connections of async-http-client, whose hook for new connections accepts a handler.
@Suite("async-http-client", .timeLimit(.minutes(2)))
struct HTTPClientTests {
  /// An application's configuration, with the socket and loopback setting of a simulated network.
  private func configuration(_ network: SimulatedNetwork) -> HTTPClient.Configuration {
    var guarding = ConnectivityGuardHandler.Config.defaults
    guarding.socket = network.socket
    let add: @Sendable (any Channel) -> EventLoopFuture<Void> = { [guarding] channel in
      channel.eventLoop.makeCompletedFuture {
        // Before the client's own handlers, which must receive its events.
        try channel.pipeline.syncOperations.addHandler(
          ConnectivityGuardHandler(config: guarding), position: .first)
      }
    }
    var configuration = HTTPClient.Configuration()
    configuration.http1_1ConnectionDebugInitializer = add
    configuration.http2ConnectionDebugInitializer = add
    // Only the caller may repeat a request.
    configuration.connectionPool.retryConnectionEstablishment = false
    return configuration
  }

  @Test("C10 a request in flight ends with its network, and the next one takes another connection")
  func request() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      try await HTTPServer.serving { url, connections in
        try await HTTPClient.withHTTPClient(configuration: self.configuration(network)) { client in
          let first = try await client.get("\(url)/hello")
          #expect(first == "hello")
          let hanging = Task { try await client.get("\(url)/hang") }
          // On the same connection, which is guarded.
          await connections.requests(2)
          try await network.waitForFlows(atLeast: 1)
          network.become(.cellular)
          await #expect(throws: FlowInvalidation.self) { try await hanging.value }
          let next = try await client.get("\(url)/hello")
          #expect(next == "hello")
          #expect(connections.count == 2)
        }
      }
    }
  }
}

extension HTTPClient {
  fileprivate func get(_ url: String) async throws -> String {
    let response = try await self.execute(HTTPClientRequest(url: url), timeout: .minutes(1))
    return String(buffer: try await response.body.collect(upTo: 100))
  }

  fileprivate static func withHTTPClient(
    configuration: Configuration, _ body: (HTTPClient) async throws -> Void
  ) async throws {
    let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    do {
      try await body(client)
    } catch {
      try? await client.shutdown()
      throw error
    }
    try await client.shutdown()
  }
}
