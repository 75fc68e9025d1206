import GRPCCore

/// Receives the requests of a stream. Called on the reactor's thread.
protocol RequestSink: AnyObject {
  /// Receives bytes.
  ///
  /// - Returns: The number of unread bytes. The client may send that much less.
  func received(_ data: UnsafeRawBufferPointer) throws(MessageReader.Fault) -> Int
  /// Called when the client's input has ended.
  func inputEnded()
  /// Called when the server is stopping, so that the call can end by itself.
  func finish()
  func close()
}

/// One call: a stream of a connection. Belongs to the reactor's thread. Tasks on other threads only
/// submit work for that thread.
package final class ServerStream: HTTP2Stream, @unchecked Sendable {
  let id: Int32
  /// `nil` once the stream is closed.
  private(set) var connection: ServerConnection?
  private var head: RequestHead? = RequestHead()
  private var sink: (any RequestSink)?
  private var source: (any MessageSource)?
  private var writer = MessageWriter()
  private var charge: Charge?
  private var hasResponded = false
  private var isInputOver = false
  var isAnswered = false
  /// Whether the source had no data for the last frame.
  private var isWaiting = false
  /// The size of the data still to arrive, or `nil` if the request does not specify it.
  private var promised: Int?
  /// The number of received bytes that have not been added to the window again.
  private var unconsumed = 0

  init(_ id: Int32, _ connection: ServerConnection) {
    self.id = id
    self.connection = connection
  }

  // MARK: The request

  func received(header name: Bytes, _ value: Bytes) {
    let isTrailer = self.head == nil
    self.head?.take(name, value)
    if isTrailer, name.first == UInt8(ascii: ":") { self.refuseMalformed() }
  }

  /// Notes that the headers are complete, or the trailers, which only mark the end of the request
  /// (RFC 9113, 8.1).
  func receivedHeaders(isEnd: Bool) {
    guard let connection = self.connection else { return }
    guard let head = self.head else { return isEnd ? () : self.refuseMalformed() }
    self.head = nil
    self.promised = head.contentLength
    let method: MethodDescriptor
    switch head.read() {
    case .call(let descriptor): method = descriptor
    case .notGRPC(let headers), .refused(let headers): return self.respondOnly(headers)
    case .malformed: return self.refuseMalformed()
    }
    do throws(Refusal) {
      self.charge = try Charge(1, of: .streams, by: connection.peer, connection.server.admission)
    } catch {
      return self.end(Status(code: .resourceExhausted, message: error.message))
    }
    self.sink = connection.server.sink(for: method, self, of: connection)
  }

  private func refuseMalformed() {
    self.connection?.session?.resetMalformed(self.id)
    self.connection?.flushSoon()
  }

  func received(_ data: UnsafeRawBufferPointer) {
    self.unconsumed += data.count
    self.promised = self.promised.map { $0 - data.count }
    if let promised, promised < 0 { return self.refuseMalformed() }
    guard let connection = self.connection, let sink = self.sink else { return self.consume(0) }
    do throws(MessageReader.Fault) {
      self.consume(try sink.received(data))
    } catch {
      self.consume(0)
      self.end(connection.server.status(of: error, connection.peer))
    }
  }

  /// Lets the client send more, because all but this many bytes were read.
  func consume(_ unread: Int) {
    let count = self.unconsumed - unread
    guard count > 0 else { return }
    self.unconsumed -= count
    self.connection?.session?.consume(count, of: self.id)
    self.connection?.flushSoon()
  }

  func inputEnded() {
    self.isInputOver = true
    // The amount of data differs from what the request specified (RFC 9113, 8.1.1).
    if let promised, promised != 0 { return self.refuseMalformed() }
    self.sink?.inputEnded()
  }

  /// Lets the call end by itself, because the server is stopping.
  func finish() {
    self.sink?.finish()
  }

  // MARK: The response

  /// Starts the response with the messages of the source, as the client accepts them.
  func respond(from source: any MessageSource) {
    guard let connection = self.connection, !self.hasResponded else { return source.close() }
    self.hasResponded = true
    self.source = source
    connection.session?.submitResponse(self.id, .response, hasBody: true)
    connection.flushSoon()
  }

  /// Resumes the stream, because the source has a message or has ended.
  package func resume() {
    self.connection?.server.reactor.checkThread()
    guard self.isWaiting, let connection = self.connection else { return }
    self.isWaiting = false
    connection.session?.resume(self.id)
    connection.flushSoon()
  }

  /// Ends the call with a status, whatever was sent or is pending.
  func end(_ status: Status) {
    self.closeSink()
    if self.hasResponded {
      self.source?.close()
      self.source = LastWord(status)
      self.resume()
    } else {
      self.respondOnly(.trailersOnly(status))
    }
  }

  /// Ends the call with a status if it has had no response.
  func endIfUnanswered(_ status: Status) {
    if !self.hasResponded { self.end(status) }
  }

  private func respondOnly(_ headers: HeaderBlock) {
    guard let connection = self.connection, !self.hasResponded else { return }
    self.hasResponded = true
    connection.session?.submitResponse(self.id, headers, hasBody: false)
    connection.flushSoon()
  }

  func fill(_ frame: UnsafeMutableRawBufferPointer) -> HTTP2Session.Filling {
    guard let source = self.source else { return .nothing }
    switch self.writer.fill(frame, from: source) {
    case .bytes(let count): return .bytes(count)
    case .end(let count, let status): return .end(count, trailers: .trailers(status))
    case .nothing:
      self.isWaiting = true
      return .nothing
    }
  }

  /// Releases the stream after all output was sent, even if the client is not done. CANCEL would be
  /// wrong here, because some clients take CANCEL for the status (RFC 9113, 8.1).
  func outputEnded() {
    guard !self.isInputOver else { return }
    self.connection?.session?.resetQuietly(self.id)
  }

  /// Notes that either side has closed the stream.
  func closed(_ error: UInt32?) {
    self.connection = nil
    self.closeSink()
    self.source?.close()
    self.source = nil
    self.charge = nil
  }

  private func closeSink() {
    self.sink?.close()
    self.sink = nil
  }
}

/// A source without messages, which only ends the response with a status.
private final class LastWord: MessageSource {
  private let status: Status

  init(_ status: Status) {
    self.status = status
  }

  func next() -> NextMessage { .end(self.status) }
  func close() {}
}
