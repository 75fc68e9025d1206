import GRPCCore

/// A call that bypasses the layers of gRPC's client. For each message, those layers would take as
/// long as reading and decoding it.
package struct ClientCall: Sendable {
  private let stream: ClientStream

  init(_ stream: ClientStream) { self.stream = stream }

  package func send(_ message: [UInt8]) async throws {
    try await self.stream.requests.write(message)
  }

  /// Ends the requests.
  package func finish() { self.stream.requests.end(Status(code: .ok, message: "")) }

  /// Reads the responses until the call ends.
  ///
  /// - Parameters:
  ///   - accepted: Called when the server has started its response.
  ///   - take: Called with each response. The next response is not read before `take` returns.
  /// - Throws: `RPCError`, or the errors of the closures.
  package func receive(
    _ accepted: () async throws -> Void, _ take: ([UInt8]) async throws -> Void
  ) async throws {
    while let event = try await self.stream.responses.next() {
      switch event {
      case .begin: try await accepted()
      case .message(let response): try await take(response)
      case .end(let status):
        if let error = status.flatMap({ RPCError(status: $0) }) { throw error }
      }
    }
  }
}
