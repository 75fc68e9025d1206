import ConnectivityClient
import ConnectivityProtocol
import GRPCCore
import SwiftProtobuf
import UnixTransport

/// Dials connd on the thread that also prints: what a message wakes, tells it.
struct ReactorDialler: Dialler {
  let reactor: Reactor

  var executor: any TaskExecutor { self.reactor }

  func withClient<Result: Sendable>(
    of socket: String,
    _ body: (any Connectivity_V1_Connectivity.ClientProtocol) async throws -> Result
  ) async throws -> Result {
    let transport = UnixClientTransport(
      connected: try SocketProbe.connection(to: socket), on: self.reactor)
    return try await withThrowingTaskGroup(of: Void.self) { group in
      let client = GRPCClient(transport: transport)
      group.addTask { try await client.runConnections() }
      defer {
        client.beginGracefulShutdown()
        group.cancelAll()
      }
      return try await body(Connectivity_V1_Connectivity.Client(wrapping: client))
    }
  }

  func watch(
    _ request: Connectivity_V1_WatchRequest, at socket: String,
    accepted: @escaping @Sendable () async throws -> Void,
    _ take: @escaping @Sendable (Connectivity_V1_WatchResponse) async throws -> Void
  ) async throws {
    let transport = UnixClientTransport(
      connected: try SocketProbe.connection(to: socket), on: self.reactor)
    try await transport.stream(
      Connectivity_V1_Connectivity.Method.Watch.descriptor, try request.serializedBytes(),
      accepted: accepted
    ) { try await take(try Connectivity_V1_WatchResponse(serializedBytes: $0)) }
  }
}
