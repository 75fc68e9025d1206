import GRPCCore
import GRPCNIOTransportHTTP2Posix

extension GRPCServer where Transport == HTTP2ServerTransport.Posix {
  /// Serves while `body` runs, and until all clients have disconnected. Hanging calls end with
  /// their connections.
  ///
  /// The server is never cancelled, not even if `body` throws or is cancelled: NIO ends the process
  /// if a connection or a stream begins in a cancelled server.
  func serving<Result>(
    _ body: (GRPCNIOTransportHTTP2Posix.SocketAddress) async throws -> Result
  ) async throws -> Result {
    let serving = Task { try await self.serve() }
    let result: Swift.Result<Result, any Error>
    do {
      result = .success(try await body(self.transport.listeningAddress))
    } catch {
      result = .failure(error)
    }
    self.beginGracefulShutdown()
    // If it could not listen, this throws the reason.
    try await serving.value
    return try result.get()
  }
}
