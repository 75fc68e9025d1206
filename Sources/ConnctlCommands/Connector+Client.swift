import ConnectivityMonitor
import ConnectivityProtocol
import GRPCCore
import UnixTransport

extension Connector {
  /// Runs the body with gRPC's client, on a connection of its own.
  ///
  /// - Throws: ``ConndError``; other errors of the body.
  func withGRPC<Result: Sendable>(
    at socket: String, _ body: (GRPCClient<UnixClientTransport>) async throws -> Result
  ) async throws -> Result {
    do {
      let transport = UnixClientTransport(
        connected: try await self.connect(to: socket), on: try self.thread.reactor)
      return try await withThrowingTaskGroup(of: Void.self) { group in
        let client = GRPCClient(transport: transport)
        group.addTask { try await client.runConnections() }
        defer {
          // In this order: cancelling the transport alone would leave calls hanging that wait for a
          // connection.
          client.beginGracefulShutdown()
          group.cancelAll()
        }
        return try await body(client)
      }
    } catch let error as ConversionError {
      throw error
    } catch {
      throw ConndError.reading(error)
    }
  }

  /// Runs the body with a client of connd's service for applications.
  ///
  /// - Throws: ``ConndError``; other errors of the body.
  func withConnd<Result: Sendable>(
    at socket: String,
    _ body: (any Connectivity_V1_Connectivity.ClientProtocol) async throws -> Result
  ) async throws -> Result {
    try await self.withGRPC(at: socket) {
      try await body(Connectivity_V1_Connectivity.Client(wrapping: $0))
    }
  }
}
