import GRPCCore

/// A connection to a server and its streams. It belongs to the reactor's thread.
final class ClientConnection: HTTP2ConnectionOwner {
  private var connection: HTTP2Connection?
  private var streams: [Int32: ClientStream] = [:]
  private var whenClosed: [CheckedContinuation<Void, Never>] = []

  /// Takes the socket, which does not block, and closes it in the end.
  init(_ socket: CInt, _ reactor: Reactor) {
    self.connection = HTTP2Connection(socket, .client, self, reactor)
  }

  func begin() throws(SystemError) { try self.connection?.begin() }

  /// `nil` when the connection is closed.
  var session: HTTP2Session? { self.connection?.session }

  func flushSoon() { self.connection?.flushSoon() }

  func add(_ stream: ClientStream, _ id: Int32) { self.streams[id] = stream }

  /// Begins no more calls, and closes when those that there are have ended.
  func finish() { self.connection?.finish() }

  func close() { self.connection?.close() }

  /// Resumes the continuation when the connection is closed.
  func whenClosed(_ continuation: CheckedContinuation<Void, Never>) {
    guard self.session != nil else { return continuation.resume() }
    self.whenClosed.append(continuation)
  }

  func connectionClosed() {
    let streams = self.streams.values
    self.streams = [:]
    for stream in streams { stream.end(.connectionIsClosed) }
    for continuation in self.whenClosed { continuation.resume() }
    self.whenClosed = []
  }

  // MARK: The session

  /// Servers begin no streams.
  func began(_ stream: Int32) {}

  func received(_ stream: Int32, header name: Bytes, _ value: Bytes) {
    self.streams[stream]?.received(header: name, value)
  }

  func receivedHeaders(_ stream: Int32) {
    self.streams[stream]?.receivedHeaders()
  }

  func received(_ stream: Int32, data: UnsafeRawBufferPointer) {
    self.streams[stream]?.received(data)
  }

  func inputEnded(_ stream: Int32) {
    self.streams[stream]?.inputEnded()
  }

  func outputEnded(_ stream: Int32) {}

  func receivedFiller() {
    self.connection?.receivedFiller()
  }

  func fill(_ stream: Int32, _ frame: UnsafeMutableRawBufferPointer) -> HTTP2Session.Filling {
    self.streams[stream]?.fill(frame) ?? .nothing
  }

  func closed(_ stream: Int32, _ error: UInt32) {
    self.streams.removeValue(forKey: stream)?.closed(error)
  }
}
