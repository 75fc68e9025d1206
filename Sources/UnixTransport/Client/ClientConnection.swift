import GRPCCore
import LinuxSupport

/// A connection to a server. Belongs to the reactor's thread.
final class ClientConnection: HTTP2ConnectionOwner {
  /// All connections of a client share one account.
  let account = Account.root
  private var connection: HTTP2Connection?
  private var whenClosed: [CheckedContinuation<Void, Never>] = []
  private var hasBegun = false
  /// Whether the server accepts no more calls.
  private(set) var isLeft = false
  /// The server's reason to close the connection, or `nil` if it gave none.
  private var farewell: String?

  /// Takes ownership of the non-blocking socket.
  init(_ socket: CInt, _ reactor: Reactor) {
    self.connection = HTTP2Connection(socket, .client, self, reactor)
  }

  /// Begins the connection, unless it has already begun.
  func begin() throws(SystemError) {
    if self.hasBegun { return }
    self.hasBegun = true
    try self.connection?.begin()
  }

  /// The session, or `nil` once the connection is closed.
  var session: HTTP2Session? { self.connection?.session }

  /// The session for a new call, or `nil` if the server accepts no more.
  var sessionForCall: HTTP2Session? { self.isLeft ? nil : self.session }

  /// The error of calls that end with the connection.
  var error: RPCError {
    if let farewell = self.farewell { return RPCError(code: .resourceExhausted, message: farewell) }
    return RPCError(code: .unavailable, message: "the connection was closed")
  }

  func flushSoon() { self.connection?.flushSoon() }

  func add(_ stream: ClientStream, _ id: Int32) { self.connection?.add(stream, id) }

  /// Starts no more calls, and closes once the running ones have ended.
  func finish() { self.connection?.finish() }

  func close() { self.connection?.close() }

  /// Resumes the continuation when the connection is closed.
  func whenClosed(_ continuation: CheckedContinuation<Void, Never>) {
    guard self.session != nil else { return continuation.resume() }
    self.whenClosed.append(continuation)
  }

  /// Returns `nil`, because servers do not start streams.
  func stream(_ id: Int32) -> (any HTTP2Stream)? { nil }

  /// Does nothing, because calls fail when the connection is closed.
  func connectionFailed(_ error: UInt32) {}

  func peerIsLeaving(_ reason: String?) {
    self.isLeft = true
    self.farewell = self.farewell ?? reason
  }

  func connectionClosed() {
    for continuation in self.whenClosed { continuation.resume() }
    self.whenClosed = []
  }
}
