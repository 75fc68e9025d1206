package import ConnectivityProtocol
private import GRPCCore

/// Makes connections to connd. Applications have NIO's, for NIO is what they use anyway; connctl brings its own, which has
/// less to do for each message.
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
}

/// What dials for the present task and those that it starts.
package enum Dialling {
  @TaskLocal package static var current: any Dialler = NIODialler()
}

private struct NIODialler: Dialler {
  var executor: any TaskExecutor { EventLoopTaskExecutor(ClientThread.eventLoop) }

  func withClient<Result: Sendable>(
    of socket: String,
    _ body: (any Connectivity_V1_Connectivity.ClientProtocol) async throws -> Result
  ) async throws -> Result {
    try await withNIOConnection(to: socket) { try await body($0) }
  }

  func watch(
    _ request: Connectivity_V1_WatchRequest, at socket: String,
    accepted: @escaping @Sendable () async throws -> Void,
    _ take: @escaping @Sendable (Connectivity_V1_WatchResponse) async throws -> Void
  ) async throws {
    try await withNIOConnection(to: socket) { connd in
      try await connd.watch(request) { response in
        // The header comes at once, the first message only when something changes.
        _ = try response.accepted.get()
        try await accepted()
        for try await message in response.messages { try await take(message) }
      }
    }
  }
}
