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
    self.connection = Confined(ClientConnection(socket, reactor), to: reactor)
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

  package func close() {
    let connection = self.connection
    self.reactor.run { connection.value.close() }
  }

  /// Makes a call without gRPC's client. The call ends with the body, but the connection does not.
  package func withCall<Result: Sendable>(
    _ method: MethodDescriptor, _ body: (ClientCall) async throws -> Result
  ) async throws -> Result {
    self.begin()
    let stream = try await self.stream(method)
    defer { self.reactor.run { stream.cancel() } }
    return try await body(ClientCall(stream))
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

  /// Does nothing, because `withStream` cancels the call at its end.
  func finish(throwing error: any Error) async {}
}

/// A value that belongs to the reactor's thread.
struct Confined<Value>: @unchecked Sendable {
  private let content: Value
  private let reactor: Reactor

  init(_ value: Value, to reactor: Reactor) { (self.content, self.reactor) = (value, reactor) }

  var value: Value {
    self.reactor.checkThread()
    return self.content
  }
}
