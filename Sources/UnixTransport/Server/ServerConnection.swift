import GRPCCore
import LinuxSupport

/// A client's connection. Belongs to the reactor's thread.
final class ServerConnection: HTTP2ConnectionOwner {
  let server: UnixServer
  let peer: PeerCredentials
  var account: Account { self.peer.account }
  /// The executor of the connection's calls, created when a call needs it.
  private(set) lazy var executor = Reactor.Executor(self.server.reactor, of: self.account)
  private let socket: CInt
  private var connection: HTTP2Connection?
  private var charge: Charge?
  /// Accounts for large headers that are not complete, or `nil` without such headers.
  private var headers: CallMemory?

  /// Takes ownership of the non-blocking socket.
  init(
    _ socket: CInt, _ peer: PeerCredentials, _ charge: consuming Charge, _ server: UnixServer
  ) {
    self.socket = socket
    self.peer = peer
    self.server = server
    self.charge = consume charge
    self.connection = HTTP2Connection(
      socket,
      .server(streams: server.settings.streamsPerConnection, headerSize: RequestHead.maxSize), self,
      server.reactor)
  }

  func begin() throws(SystemError) { try self.connection?.begin() }

  /// The session, or `nil` once the connection is closed.
  var session: HTTP2Session? { self.connection?.session }

  func flushSoon() { self.connection?.flushSoon() }

  /// Accepts no more calls, and closes once the existing ones have ended.
  func finish() {
    guard let connection = self.connection else { return }
    connection.finish()
    for case let stream as ServerStream in connection.streams.values { stream.finish() }
  }

  /// Closes the socket and ends all calls.
  func close() { self.connection?.close() }

  /// Ends unfinished calls with a status, sends as much as the socket accepts, and closes it.
  func close(_ status: Status) {
    guard let connection = self.connection else { return }
    for case let stream as ServerStream in connection.streams.values { stream.end(status) }
    repeat { connection.flush() } while connection.willBeFlushed
    connection.close()
  }

  func stream(_ id: Int32) -> (any HTTP2Stream)? { ServerStream(id, self) }

  /// Implements rule D4. Decoded headers may take almost twice their encoded size.
  func admitsHeaders(_ size: Int) -> Bool {
    if self.headers == nil, 2 * size <= CallMemory.free { return true }
    let memory = self.headers ?? CallMemory(of: self.peer, self.server.admission)
    self.headers = size > 0 ? memory : nil
    guard size <= RequestHead.maxSize else { return false }
    do throws(Refusal) {
      try memory.set(.requests, to: 2 * size)
      return true
    } catch {
      return false
    }
  }

  /// Does nothing, because clients may stop making calls at any time.
  func peerIsLeaving(_ reason: String?) {}

  func connectionFailed(_ error: UInt32) {
    self.server.admission.connectionFailed(of: self.peer, error)
  }

  func connectionClosed() {
    self.peer.process?.forget()
    self.charge = nil
    self.headers = nil
    self.server.closed(self, self.socket)
  }
}
