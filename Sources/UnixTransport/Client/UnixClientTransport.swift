package import GRPCCore

/// gRPC's client over a Unix socket: one connection, with nghttp2, on the thread of a ``Reactor``.
/// Input wakes that thread, and the task that reads it also runs there.
///
/// - It does not reconnect. When the connection ends, so does the transport, and calls fail with
///   UNAVAILABLE.
/// - It passes on no metadata in either direction. A deadline ends the call locally; the server
///   does not receive it.
package struct UnixClientTransport: ClientTransport {
  package typealias Bytes = [UInt8]

  private let reactor: Reactor
  private let connection: Confined<ClientConnection>

  /// - Parameter socket: A connected socket, which the transport closes.
  package init(connected socket: CInt, on reactor: Reactor) {
    self.reactor = reactor
    self.connection = Confined(ClientConnection(socket, reactor))
  }

  package var retryThrottle: RetryThrottle? { nil }

  package func config(forMethod descriptor: MethodDescriptor) -> MethodConfig? { nil }

  /// Returns when the connection has ended.
  package func connect() async throws {
    let connection = self.connection
    await withTaskCancellationHandler {
      await withCheckedContinuation { ended in
        self.begin()
        self.reactor.run { connection.value.whenClosed(ended) }
      }
    } onCancel: {
      self.close()
    }
  }

  private func begin() {
    let connection = self.connection
    self.reactor.run {
      do { try connection.value.begin() } catch { connection.value.close() }
    }
  }

  private func close() {
    let connection = self.connection
    self.reactor.run { connection.value.close() }
  }

  /// Makes one call with a request and a stream of responses, without gRPC's client. For each
  /// message, the layers of that client would take as long as reading and decoding it.
  ///
  /// - Parameters:
  ///   - accepted: Called when the server has started its response.
  ///   - take: Called with each response. The next one is not read before it returns.
  /// - Throws: `RPCError`, or the errors of the closures.
  package func stream(
    _ method: MethodDescriptor, _ request: [UInt8], accepted: () async throws -> Void,
    _ take: ([UInt8]) async throws -> Void
  ) async throws {
    self.begin()
    let stream = try await self.stream(method)
    defer { self.reactor.run { stream.cancel() } }
    try await stream.requests.write(request)
    stream.requests.end(Status(code: .ok, message: ""))
    while let event = try await stream.responses.next() {
      switch event {
      case .begin: try await accepted()
      case .message(let response): try await take(response)
      case .end(let status):
        if let error = status.flatMap({ RPCError(status: $0) }) { throw error }
      }
    }
  }

  private func stream(_ method: MethodDescriptor) async throws -> ClientStream {
    let stream = ClientStream(method, self.reactor)
    let connection = self.connection
    try await withCheckedThrowingContinuation { (begun: CheckedContinuation<Void, any Error>) in
      self.reactor.run {
        begun.resume(
          with: Result { () throws(RPCError) in try stream.begin(connection.value) }.mapError { $0 }
        )
      }
    }
    return stream
  }

  package func beginGracefulShutdown() {
    let connection = self.connection
    self.reactor.run { connection.value.finish() }
  }

  package func withStream<Success: Sendable>(
    descriptor: MethodDescriptor, options: CallOptions,
    _ closure: (_ stream: RPCStream<Inbound, Outbound>, _ context: ClientContext) async throws ->
      Success
  ) async throws -> Success {
    let stream = try await self.stream(descriptor)
    defer { self.reactor.run { stream.cancel() } }
    let parts = InboxParts(inbox: stream.responses) { event -> RPCResponsePart<[UInt8]>? in
      switch event {
      case .begin: .metadata([:])
      case .message(let message): .message(message)
      case .end(let status): status.map { .status($0, [:]) }
      }
    }
    return try await closure(
      RPCStream(
        descriptor: descriptor, inbound: RPCAsyncSequence(wrapping: parts),
        outbound: RPCWriter.Closable(wrapping: RequestWriter(outbox: stream.requests))),
      ClientContext(descriptor: descriptor, remotePeer: "unix:", localPeer: "unix:"))
  }
}

/// Writes the requests of a call as its task provides them.
private struct RequestWriter: ClosableRPCWriterProtocol {
  let outbox: MessageOutbox

  func write(_ part: RPCRequestPart<[UInt8]>) async throws {
    switch part {
    case .metadata: break
    case .message(let message): try await self.outbox.write(message)
    }
  }

  func write(contentsOf parts: some Sequence<RPCRequestPart<[UInt8]>>) async throws {
    for part in parts { try await self.write(part) }
  }

  func finish() async { self.outbox.end(Status(code: .ok, message: "")) }

  /// Nothing to do, because the end of the call cancels it.
  func finish(throwing error: any Error) async {}
}

/// A value that belongs to the reactor's thread.
struct Confined<Value>: @unchecked Sendable {
  let value: Value

  init(_ value: Value) { self.value = value }
}
