package import ConnectivityProtocol
package import GRPCCore

/// Makes connections to connd. Applications use NIO's, because they use NIO anyway. connctl has its
/// own, which has no dependencies and does less work per message.
package protocol Connector: Sendable {
  /// The executor for tasks that read input.
  var executor: any TaskExecutor { get }

  /// Runs the body with a client of connd, and then closes the connection.
  ///
  /// - Throws: ``ConndError`` if connd is not running or refuses this user; the error of the body;
  ///   gRPC's errors.
  func withClient<Result: Sendable>(
    of socket: String,
    _ body: (any Connectivity_V1_Connectivity.ClientProtocol) async throws -> Result
  ) async throws -> Result

  /// Makes the call `Watch` on a separate connection, until it ends.
  ///
  /// - Parameters:
  ///   - accepted: Called when connd has accepted the call. The first message may arrive much
  ///     later.
  ///   - take: Called with each message. The next one is not read before it returns.
  /// - Throws: The errors of `withClient`; the errors of the closures.
  func watch(
    _ request: Connectivity_V1_WatchRequest, at socket: String,
    accepted: @escaping @Sendable () async throws -> Void,
    _ take: @escaping @Sendable (Connectivity_V1_WatchResponse) async throws -> Void
  ) async throws

  /// Returns why connd closes connections right after accepting them, or `nil` if it does not. The
  /// reason is that it has reached a limit. Waits a moment for connd to send it. Blocks no thread
  /// of an application.
  func farewell(of socket: String) async -> String?
}

extension Connector {
  /// Converts an error for the caller, as ``ConndError/reading(_:)`` does. If connd closed the
  /// connection, adds the reason, which gRPC does not pass on.
  package func reading(_ error: any Error, of socket: String) async -> any Error {
    let read = ConndError.reading(error)
    guard (error as? RPCError)?.code == .unavailable, read is ConndError,
      let reason = await self.farewell(of: socket)
    else { return read }
    return ConndError.turnedAway(reason)
  }

  /// Like `withClient`, with connd's errors in place of gRPC's.
  package func withConnd<Result: Sendable>(
    at socket: String,
    _ body: (any Connectivity_V1_Connectivity.ClientProtocol) async throws -> Result
  ) async throws -> Result {
    do {
      return try await self.withClient(of: socket, body)
    } catch {
      throw await self.reading(error, of: socket)
    }
  }
}

/// Runs a client over the transport as long as `body` runs.
package func withClient<Transport: ClientTransport, Result: Sendable>(
  over transport: Transport,
  _ body: (Connectivity_V1_Connectivity.Client<Transport>) async throws -> Result
) async throws -> Result {
  try await withThrowingTaskGroup(of: Void.self) { group in
    let client = GRPCClient(transport: transport)
    group.addTask { try await client.runConnections() }
    defer {
      // In this order: cancelling the transport alone would leave calls hanging that wait for a
      // connection.
      client.beginGracefulShutdown()
      group.cancelAll()
    }
    return try await body(Connectivity_V1_Connectivity.Client(wrapping: client))
  }
}
