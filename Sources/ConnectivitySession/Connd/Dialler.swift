package import ConnectivityProtocol
package import GRPCCore

/// Makes connections to connd. Applications have NIO's, for NIO is what they use anyway; connctl has its own, which needs
/// nothing and has less to do for each message.
package protocol Dialler: Sendable {
  /// Runs the tasks that read what comes.
  var executor: any TaskExecutor { get }

  /// Runs the body with a client of connd, and closes its connection when it is done.
  ///
  /// - Throws: ``ConndError`` where connd is not there or refuses this user; what the body throws; gRPC's errors.
  func withClient<Result: Sendable>(
    of socket: String,
    _ body: (any Connectivity_V1_Connectivity.ClientProtocol) async throws -> Result
  ) async throws -> Result

  /// Makes the call `Watch` on a connection of its own, until it ends.
  ///
  /// - Parameters:
  ///   - accepted: called when connd has accepted the call: the first message may come much later.
  ///   - take: called with each message; the next one is not read before it returns.
  /// - Throws: as `withClient`; what the closures throw.
  func watch(
    _ request: Connectivity_V1_WatchRequest, at socket: String,
    accepted: @escaping @Sendable () async throws -> Void,
    _ take: @escaping @Sendable (Connectivity_V1_WatchResponse) async throws -> Void
  ) async throws

  /// Why connd closes connections as soon as it has accepted them, where it does: one of its limits is reached. It is given a
  /// moment to say so. Blocks no thread of an application's.
  func farewell(of socket: String) async -> String?
}

extension Dialler {
  /// What an error means for the caller: ``ConndError/reading(_:)``, and where connd closed the connection, why. gRPC does not
  /// pass on what a server says then.
  package func reading(_ error: any Error, of socket: String) async -> any Error {
    let read = ConndError.reading(error)
    guard (error as? RPCError)?.code == .unavailable, read is ConndError,
      let reason = await self.farewell(of: socket)
    else { return read }
    return ConndError.turnedAway(reason)
  }

  /// As `withClient`, with connd's errors in place of gRPC's.
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

/// Runs a client over the transport while `body` does.
package func withClient<Transport: ClientTransport, Result: Sendable>(
  over transport: Transport,
  _ body: (Connectivity_V1_Connectivity.Client<Transport>) async throws -> Result
) async throws -> Result {
  try await withThrowingTaskGroup(of: Void.self) { group in
    let client = GRPCClient(transport: transport)
    group.addTask { try await client.runConnections() }
    defer {
      // In this order: a transport that is only cancelled leaves calls hanging that wait for a connection.
      client.beginGracefulShutdown()
      group.cancelAll()
    }
    return try await body(Connectivity_V1_Connectivity.Client(wrapping: client))
  }
}
