package import ConnectivityProtocol
private import EventLoopExecutor

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
}
