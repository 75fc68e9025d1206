import GRPCCore

/// A connection to a server. It belongs to the reactor's thread.
final class ClientConnection: HTTP2ConnectionOwner {
  /// A client has only one.
  let account = Account.root
  private var connection: HTTP2Connection?
  private var whenClosed: [CheckedContinuation<Void, Never>] = []

  /// Takes the socket, which does not block, and closes it in the end.
  init(_ socket: CInt, _ reactor: Reactor) {
    self.connection = HTTP2Connection(socket, .client, self, reactor)
  }

  func begin() throws(SystemError) { try self.connection?.begin() }

  /// `nil` when the connection is closed.
  var session: HTTP2Session? { self.connection?.session }

  func flushSoon() { self.connection?.flushSoon() }

  func add(_ stream: ClientStream, _ id: Int32) { self.connection?.add(stream, id) }

  /// Begins no more calls, and closes when those that there are have ended.
  func finish() { self.connection?.finish() }

  func close() { self.connection?.close() }

  /// Resumes the continuation when the connection is closed.
  func whenClosed(_ continuation: CheckedContinuation<Void, Never>) {
    guard self.session != nil else { return continuation.resume() }
    self.whenClosed.append(continuation)
  }

  /// Servers begin no streams.
  func stream(_ id: Int32) -> (any HTTP2Stream)? { nil }

  /// Its calls fail when it is closed.
  func connectionFailed(_ error: UInt32) {}

  func connectionClosed() {
    for continuation in self.whenClosed { continuation.resume() }
    self.whenClosed = []
  }
}
