import CLinux
import GRPCCore
import Glibc
import LinuxSupport

/// Accepts connections on a Unix socket and handles their calls, until it is finished. Belongs to
/// the reactor's thread.
final class UnixServer: Pollable, @unchecked Sendable {
  /// How long to accept connections before existing ones get their turn. A longer time empties the
  /// backlog faster, and delays the queries of all users.
  private static let maxAcceptingTime = Duration.microseconds(800)
  /// The kernel's send buffer for a client, as the kernel counts its size. It is larger than the
  /// longest frame.
  private static let sendBuffer: CInt = 16 << 10

  let account: Account? = nil
  let reactor: Reactor
  let settings: UnixServerTransport.Settings
  let admission: any Admission
  private let methods: [String: StreamingMethod]
  private let listener: CInt
  private var isListening = false
  private var connections: [CInt: ServerConnection] = [:]
  /// The number of connections that wait for their user's turn.
  private var acceptedConnections = 0
  private var handler: Call.Handler?
  private var runningCalls = 0
  /// Whether the server accepts no more connections and calls.
  private var isFinishing = false
  /// Whether the server ends only after the handlers of calls and the accepted connections have
  /// ended.
  private var awaitsHandlers = true
  private var ended: CheckedContinuation<Void, Never>?
  /// Tasks that wait until connections are accepted.
  private var waiters: [CheckedContinuation<Void, Never>] = []

  init(
    listeningOn descriptor: CInt, _ methods: [String: StreamingMethod],
    _ settings: UnixServerTransport.Settings, _ admission: any Admission, _ reactor: Reactor
  ) {
    self.listener = descriptor
    self.methods = methods
    self.settings = settings
    self.admission = admission
    self.reactor = reactor
  }

  deinit {
    Glibc.close(self.listener)
  }

  // MARK: Life

  /// - Parameter ended: Resumed when the server has finished and the last connection and call have
  ///   ended.
  func begin(_ handler: @escaping Call.Handler, ended: CheckedContinuation<Void, Never>) {
    self.reactor.checkThread()
    (self.handler, self.ended) = (handler, ended)
    _ = fcntl(self.listener, F_SETFL, fcntl(self.listener, F_GETFL) | O_NONBLOCK)
    self.listen()
    for waiter in self.waiters { waiter.resume() }
    self.waiters = []
    self.endIfDone()
  }

  /// Resumes the continuation when connections are accepted.
  func whenListening(_ waiter: CheckedContinuation<Void, Never>) {
    if self.handler != nil { waiter.resume() } else { self.waiters.append(waiter) }
  }

  /// Accepts no more connections and calls. Existing ones continue to their end.
  func finish() {
    self.reactor.checkThread()
    self.isFinishing = true
    self.stopListening()
    for connection in self.connections.values { connection.finish() }
    self.endIfDone()
  }

  /// Ends all unfinished calls with a status, and closes the connections. Cancels the handlers of
  /// the calls and does not wait for them, because a user may have made thousands of calls.
  func close(_ status: Status) {
    self.reactor.checkThread()
    (self.isFinishing, self.awaitsHandlers) = (true, false)
    self.stopListening()
    for connection in self.connections.values { connection.close(status) }
    self.endIfDone()
  }

  private func endIfDone() {
    let isWaiting = self.runningCalls > 0 || self.acceptedConnections > 0
    guard self.isFinishing, self.connections.isEmpty, !isWaiting || !self.awaitsHandlers else {
      return
    }
    self.ended?.resume()
    self.ended = nil
  }

  // MARK: Connections

  private func listen() {
    guard !self.isFinishing, !self.isListening else { return }
    do throws(SystemError) {
      try self.reactor.watch(self.listener, self)
      self.isListening = true
    } catch {
      self.pause(error)
    }
  }

  private func stopListening() {
    guard self.isListening else { return }
    self.isListening = false
    self.reactor.forget(self.listener)
  }

  /// Stops accepting for a second, in which clients wait. Descriptors are unlikely to become
  /// available sooner.
  private func pause(_ error: SystemError) {
    self.admission.acceptFailed(error)
    self.stopListening()
    self.reactor.execute(after: .seconds(1)) { self.listen() }
  }

  func ready() {
    let end = Thread.worked + Self.maxAcceptingTime
    while self.isListening, Thread.worked < end, !self.reactor.hasNews {
      let socket = clinux_accept(self.listener)
      guard socket < 0 else {
        self.accept(socket)
        continue
      }
      switch errno {
      case EAGAIN: return
      case EINTR, ECONNABORTED: continue
      case let code: self.pause(SystemError(code))
      }
    }
  }

  /// Lets a connection wait for its user's turn. This costs little, so the listen backlog is nearly
  /// always empty. All users wait there in the order of their arrival.
  private func accept(_ socket: CInt) {
    self.admission.accepted()
    // Do as little as possible for a client that has already left, so that a reconnect loop cannot
    // starve others.
    var state = pollfd(fd: socket, events: 0, revents: 0)
    guard poll(&state, 1, 0) == 0 else {
      Glibc.close(socket)
      return
    }
    do {
      var peer = try PeerCredentials(of: socket)
      peer.account = self.admission.account(ofUID: peer.uid)
      let connection = AcceptedConnection(
        socket, peer, try Charge(1, of: .connections, by: peer, self.admission))
      self.acceptedConnections += 1
      self.reactor.execute(inTurnOf: peer.account) { self.begin(connection) }
    } catch {
      if let refusal = error as? Refusal {
        // The socket's buffer is empty, so this fits.
        let farewell = Self.farewell(refusal.message)
        send(socket, farewell, farewell.count, CInt(MSG_NOSIGNAL))
      }
      Glibc.close(socket)
    }
  }

  /// Serves a connection when its user's turn has come.
  private func begin(_ accepted: AcceptedConnection) {
    self.acceptedConnections -= 1
    guard let charge = accepted.charge.take(), !self.isFinishing else {
      Glibc.close(accepted.socket)
      return self.endIfDone()
    }
    var size = Self.sendBuffer
    setsockopt(
      accepted.socket, SOL_SOCKET, SO_SNDBUF, &size, socklen_t(MemoryLayout.size(ofValue: size)))
    let connection = ServerConnection(accepted.socket, accepted.peer, charge, self)
    self.connections[accepted.socket] = connection
    do { try connection.begin() } catch { connection.close() }
  }

  /// Returns the HTTP/2 output for a rejected client: an empty SETTINGS frame as the preface, and
  /// GOAWAY with ENHANCE_YOUR_CALM and the reason (RFC 9113, 3.4 and 6.8).
  private static func farewell(_ reason: String) -> [UInt8] {
    let length = 8 + UInt32(reason.utf8.count)
    return [0, 0, 0, 4, 0, 0, 0, 0, 0]
      + [UInt8(length >> 16), UInt8(length >> 8 & 0xFF), UInt8(length & 0xFF), 7, 0, 0, 0, 0, 0]
      + [0, 0, 0, 0, 0, 0, 0, 0xB] + Array(reason.utf8)
  }

  func closed(_ connection: ServerConnection, _ socket: CInt) {
    self.connections[socket] = nil
    self.endIfDone()
  }

  // MARK: Calls

  /// Returns the receiver of a new call's requests.
  func sink(
    for method: MethodDescriptor, _ stream: ServerStream, of connection: ServerConnection
  ) -> (any RequestSink)? {
    let peer = connection.peer
    if let begin = self.methods[method.fullyQualifiedMethod] {
      return SingleRequest(stream, peer, self, begin)
    }
    guard let handler = self.handler else { return nil }
    let call = Call(stream, self, peer)
    self.runningCalls += 1
    call.begin(method, peer, on: connection.executor, handler) {
      self.reactor.checkThread()
      self.runningCalls -= 1
      self.endIfDone()
    }
    return call
  }

  /// Returns the status of a call with a request that cannot be accepted.
  func status(of fault: MessageReader.Fault, _ peer: PeerCredentials) -> Status {
    switch fault {
    case .tooLong:
      let refusal = self.admission.refuseMessage(of: peer, maxLength: self.settings.messageSize)
      return Status(code: .resourceExhausted, message: refusal.message)
    case .refused(let refusal):
      return Status(code: .resourceExhausted, message: refusal.message)
    case .compressed:
      return Status(code: .internalError, message: "a request is compressed, but names no encoding")
    }
  }
}

/// A connection that waits for its user's turn.
private final class AcceptedConnection {
  let socket: CInt
  let peer: PeerCredentials
  var charge: Charge?

  /// Takes ownership of the non-blocking socket.
  init(_ socket: CInt, _ peer: PeerCredentials, _ charge: consuming Charge) {
    (self.socket, self.peer) = (socket, peer)
    self.charge = consume charge
  }
}
