import CNghttp2
import GRPCCore

/// A call to a server. Belongs to the reactor's thread, except for its task's reads and writes.
final class ClientStream: HTTP2Stream, @unchecked Sendable {
  /// The maximum size of a response in bytes. The longest are connd's history and statistics.
  private static let maxMessageSize = 16 << 20

  private let reactor: Reactor
  private let path: String
  /// `nil` before the call has started, and after it has ended.
  private var connection: ClientConnection?
  private var id: Int32 = 0
  private var head = ResponseHead()
  private var hasBegun = false
  var isAnswered = false
  private var writer = MessageWriter()
  private var isWaiting = false
  private var unconsumed = 0
  private(set) lazy var responses = MessageInbox(maxLength: Self.maxMessageSize, hasBegun: false) {
    [weak self, reactor] unread, _ in
    guard let self else { return }
    reactor.run { self.consume(unread) }
  }
  private(set) lazy var requests = MessageOutbox { [weak self, reactor] in
    guard let self else { return }
    reactor.run { self.resume() }
  }

  init(_ method: MethodDescriptor, _ reactor: Reactor) {
    self.path = "/\(method.fullyQualifiedMethod)"
    self.reactor = reactor
    // Initialised here, because several threads could initialise these lazy properties later.
    _ = (self.responses, self.requests)
  }

  // MARK: The request

  func begin(_ connection: ClientConnection) throws(RPCError) {
    guard let session = connection.sessionForCall else { throw connection.error }
    let headers: HeaderBlock = [
      ":method": "POST", ":scheme": "http", ":path": self.path, ":authority": "localhost",
      "te": "trailers", "content-type": "application/grpc",
    ]
    guard let id = session.submitRequest(headers) else { throw connection.error }
    self.id = id
    self.connection = connection
    connection.add(self, id)
    connection.flushSoon()
  }

  /// Cancels the call, because no task waits for the response.
  func cancel() {
    guard let connection = self.connection else { return }
    connection.session?.cancel(self.id)
    connection.flushSoon()
  }

  private func resume() {
    guard self.isWaiting, let connection = self.connection else { return }
    self.isWaiting = false
    connection.session?.resume(self.id)
    connection.flushSoon()
  }

  func fill(_ frame: UnsafeMutableRawBufferPointer) -> HTTP2Session.Filling {
    switch self.writer.fill(frame, from: self.requests) {
    case .bytes(let count): return .bytes(count)
    case .end(let count, _): return .end(count, trailers: nil)
    case .nothing:
      self.isWaiting = true
      return .nothing
    }
  }

  // MARK: The response

  func received(header name: Bytes, _ value: Bytes) {
    self.head.take(name, value)
  }

  /// Notes that the response has begun, and may have ended as well.
  func receivedHeaders(isEnd: Bool) {
    guard !self.hasBegun, !self.head.isLast else { return }
    self.hasBegun = true
    self.responses.begin()
  }

  func received(_ data: UnsafeRawBufferPointer) {
    self.unconsumed += data.count
    do throws(MessageReader.Fault) {
      self.consume(try self.responses.append(data))
    } catch {
      self.responses.finish(
        .failure(RPCError(code: .resourceExhausted, message: "a response is too long")))
      self.cancel()
    }
  }

  private func consume(_ unread: Int) {
    let count = self.unconsumed - unread
    guard count > 0, let connection = self.connection else { return }
    self.unconsumed -= count
    connection.session?.consume(count, of: self.id)
    connection.flushSoon()
  }

  func inputEnded() {
    self.responses.finish(.success(self.head.status))
  }

  func outputEnded() {}

  /// Ends the call, unless it has already ended.
  func closed(_ error: UInt32?) {
    guard let connection = self.connection.take() else { return }
    self.requests.close()
    // A server that accepts no more calls refuses the latest ones.
    let isLeft = connection.isLeft && error == NGHTTP2_REFUSED_STREAM.rawValue
    let reason = error.flatMap { isLeft ? nil : RPCError.http2($0) }
    self.responses.finish(.failure(reason ?? connection.error))
  }
}

extension RPCError {
  /// Returns the error for the end of a stream, mapped as in gRPC's PROTOCOL-HTTP2.md.
  fileprivate static func http2(_ error: UInt32) -> RPCError {
    let code: Code
    switch nghttp2_error_code(error) {
    case NGHTTP2_REFUSED_STREAM, NGHTTP2_NO_ERROR: code = .unavailable
    case NGHTTP2_CANCEL: code = .cancelled
    case NGHTTP2_ENHANCE_YOUR_CALM: code = .resourceExhausted
    default: code = .internalError
    }
    let name = String(cString: nghttp2_http2_strerror(error))
    return RPCError(code: code, message: "the stream was closed: \(name)")
  }
}
