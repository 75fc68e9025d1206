package import GRPCCore

/// gRPC's client over a Unix socket: one connection, by nghttp2, on the thread of a ``Reactor``. What comes wakes that thread,
/// and the task that reads it runs there, too.
///
/// - It does not connect again: when the connection has ended, so has the transport, and calls fail with UNAVAILABLE.
/// - No metadata is passed on, in neither direction. A deadline ends the call here; the server is not told of it.
package struct UnixClientTransport: ClientTransport {
  package typealias Bytes = [UInt8]

  private let reactor: Reactor
  private let connection: Confined<ClientConnection>

  /// - Parameter socket: a connected socket, which the transport closes.
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
        self.reactor.run {
          do { try connection.value.begin() } catch { connection.value.close() }
          connection.value.whenClosed(ended)
        }
      }
    } onCancel: {
      self.reactor.run { connection.value.close() }
    }
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
    let stream = ClientStream(descriptor, self.reactor)
    let connection = self.connection
    try await withCheckedThrowingContinuation { (begun: CheckedContinuation<Void, any Error>) in
      self.reactor.run {
        begun.resume(
          with: Result { () throws(RPCError) in try stream.begin(connection.value) }.mapError { $0 })
      }
    }
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

/// Writes the requests of a call as its task gives them.
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

  /// The call is cancelled by its end.
  func finish(throwing error: any Error) async {}
}

/// A value that belongs to the reactor's thread.
struct Confined<Value>: @unchecked Sendable {
  let value: Value

  init(_ value: Value) { self.value = value }
}
