import CLinux
import CNghttp2
import Glibc
import LinuxSupport

/// A stream of a connection, with its input and output.
protocol HTTP2Stream: AnyObject {
  typealias Bytes = UnsafeBufferPointer<UInt8>

  func received(header name: Bytes, _ value: Bytes)
  /// - Parameter isEnd: Whether the headers end the peer's input.
  func receivedHeaders(isEnd: Bool)
  func received(_ data: UnsafeRawBufferPointer)
  /// Called when the peer's input has ended.
  func inputEnded()
  /// Called when all output, up to the end of the stream, has been sent.
  func outputEnded()
  /// Whether any output has been sent.
  var isAnswered: Bool { get set }
  /// Fills a frame of data.
  func fill(_ frame: UnsafeMutableRawBufferPointer) -> HTTP2Session.Filling
  /// - Parameter error: The HTTP/2 error (RFC 9113, 7), or `nil` if the whole connection was
  ///   closed.
  func closed(_ error: UInt32?)
}

/// The owner of a connection.
protocol HTTP2ConnectionOwner: AnyObject {
  /// The account that is charged for the connection's time.
  var account: Account { get }
  /// Returns the object for a stream that the peer starts, or `nil` if the peer may not start one.
  func stream(_ id: Int32) -> (any HTTP2Stream)?
  /// Whether the peer may send headers of this encoded size. The session keeps headers until they
  /// are complete. Then the size is 0.
  func admitsHeaders(_ size: Int) -> Bool
  /// Called before the connection is closed because of the peer's input.
  ///
  /// - Parameter error: The HTTP/2 error (RFC 9113, 7).
  func connectionFailed(_ error: UInt32)
  /// Called when the peer accepts no more streams.
  ///
  /// - Parameter reason: The reason, if the peer is overloaded.
  func peerIsLeaving(_ reason: String?)
  /// Called when either side has closed the connection and its streams. The socket is closed
  /// afterwards.
  func connectionClosed()
}

extension HTTP2ConnectionOwner {
  /// A client trusts its server.
  func admitsHeaders(_ size: Int) -> Bool { true }
}

/// A socket, its HTTP/2 session, and the session's streams. Belongs to the reactor's thread.
///
/// Implements rule D4.
final class HTTP2Connection: Pollable {
  /// The maximum number of bytes per read. Messages are small. Between the reads of a large input,
  /// other connections get their turn.
  private static let maxReadSize = 4096

  private let socket: CInt
  private let reactor: Reactor
  private let isServer: Bool
  let owningAccount: Account
  var account: Account? { self.owningAccount }
  /// `nil` once the connection is closed.
  private var owner: (any HTTP2ConnectionOwner)?
  /// `nil` once the connection is closed.
  private(set) var session: HTTP2Session?
  private(set) var streams: [Int32: any HTTP2Stream] = [:]
  /// Output that the socket has not accepted yet.
  private var unsent: [UInt8] = []
  private var isWaitingForRoom = false
  private(set) var willBeFlushed = false
  private var pings = ControlFrameLimiter()
  private var fillers = ControlFrameLimiter()
  /// The reason to close the connection: too many ``HTTP2Session/Filler`` frames, or a forbidden
  /// frame.
  private var fault: nghttp2_error_code?
  /// Whether the owner was notified of the failure.
  private var hasFailed = false
  /// Whether the connection accepts no more streams.
  private var isFinishing = false
  /// Whether all output has been sent, so that the peer should close.
  private var isLingering = false

  /// Takes ownership of the non-blocking socket.
  init(
    _ socket: CInt, _ role: HTTP2Session.Role, _ owner: any HTTP2ConnectionOwner, _ reactor: Reactor
  ) {
    self.socket = socket
    self.reactor = reactor
    self.owner = owner
    self.owningAccount = owner.account
    self.isServer = if case .server = role { true } else { false }
    self.session = HTTP2Session(role, self)
  }

  func begin() throws(SystemError) {
    // The connection may already be closed, and its descriptor reused.
    guard self.session != nil else { return }
    try self.reactor.watch(self.socket, self)
    self.flush()
  }

  /// Accepts no more streams, and closes once the existing ones have ended.
  func finish() {
    self.isFinishing = true
    self.session?.submitGoAway()
    self.flushSoon()
  }

  func close() {
    self.reactor.checkThread()
    guard let session = self.session else { return }
    self.session = nil
    self.reactor.forget(self.socket)
    self.unsent = []
    let streams = self.streams.values
    self.streams = [:]
    for stream in streams { stream.closed(nil) }
    // The owner may use the socket's number as a key, which is reused after the socket is closed.
    self.owner.take()?.connectionClosed()
    Glibc.close(self.socket)
    withExtendedLifetime(session) {}
  }

  /// Adds a stream that this side has started.
  func add(_ stream: any HTTP2Stream, _ id: Int32) { self.streams[id] = stream }

  // MARK: Reading

  func ready() {
    guard self.isWaitingForRoom, self.isServer else {
      if self.read() { self.flush() } else { self.close() }
      return
    }
    // If a client does not accept output, no more input is read from it, because that would create
    // more output. The end of its connection is still detected. (If a client did the same to its
    // server, both could wait forever.)
    self.flush()
    if self.isWaitingForRoom, self.hasHungUp { self.close() }
  }

  private var hasHungUp: Bool {
    var descriptor = pollfd(
      fd: self.socket, events: Int16(EPOLLRDHUP.rawValue), revents: 0)
    return poll(&descriptor, 1, 0) > 0
  }

  /// - Returns: Whether the connection continues.
  private func read() -> Bool {
    withUnsafeTemporaryAllocation(byteCount: Self.maxReadSize, alignment: 1) { buffer in
      let count = recv(self.socket, buffer.baseAddress, buffer.count, 0)
      if count < 0 { return errno == EAGAIN || errno == EINTR }
      guard count > 0, let session = self.session else { return false }
      let isWell = session.receive(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
      if isWell, self.fault == nil { return true }
      let owner = self.owner
      if let fault = self.fault { session.terminate(fault) }
      // nghttp2 usually has an error to send. Report the failure even if the peer does not wait for
      // the error.
      self.flush()
      self.fail(UInt32(NGHTTP2_PROTOCOL_ERROR.rawValue), owner)
      return false
    }
  }

  /// Closes the connection because the peer accepts no more output. A server may have sent its
  /// reason before it closed the connection.
  private func closeAfterReading() {
    if !self.isServer, let session = self.session {
      withUnsafeTemporaryAllocation(byteCount: Self.maxReadSize, alignment: 1) { buffer in
        while case let count = recv(self.socket, buffer.baseAddress, buffer.count, 0), count > 0,
          session.receive(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
        {}
      }
    }
    self.close()
  }

  // MARK: Writing

  /// Flushes at the end of this turn, so that frames are sent together.
  func flushSoon() {
    self.reactor.checkThread()
    guard !self.willBeFlushed else { return }
    self.willBeFlushed = true
    self.reactor.flushSoon(self)
  }

  /// Sends pending output, as far as the socket accepts it, and closes once everything is sent.
  /// Sends large output in parts, so that other connections get their turn.
  func flush() {
    self.reactor.checkThread()
    self.willBeFlushed = false
    while let session = self.session, self.sendRest() {
      let scratch = self.reactor.scratch
      var count = 0
      while count < scratch.count - HTTP2Session.maxFrameSize, let frame = session.nextOutput() {
        UnsafeMutableRawBufferPointer(rebasing: scratch[count...]).copyMemory(from: frame)
        count += frame.count
      }
      guard count > 0 else {
        if session.isOver { self.linger() }
        return
      }
      let bytes = UnsafeRawBufferPointer(rebasing: scratch[..<count])
      guard let sent = self.send(bytes) else { return self.closeAfterReading() }
      if sent < count {
        self.unsent = Array(bytes[sent...])
        self.watchForRoom(true)
      } else if count >= scratch.count - HTTP2Session.maxFrameSize {
        return self.flushSoon()
      }
    }
  }

  /// Shuts down output. If a socket is closed with unread input, the peer's next write fails
  /// (unix(7)). Some clients then stop reading, and miss how their calls ended.
  private func linger() {
    guard !self.isLingering else { return }
    guard self.isFinishing else { return self.close() }
    self.isLingering = true
    shutdown(self.socket, CInt(SHUT_WR))
  }

  /// - Returns: Whether nothing is left.
  private func sendRest() -> Bool {
    if !self.unsent.isEmpty {
      guard let sent = self.unsent.withUnsafeBytes({ self.send($0) }) else {
        self.closeAfterReading()
        return false
      }
      if sent < self.unsent.count {
        self.unsent.removeFirst(sent)
      } else {
        self.unsent = []
      }
    }
    self.watchForRoom(!self.unsent.isEmpty)
    return self.unsent.isEmpty
  }

  private func watchForRoom(_ mustWait: Bool) {
    guard mustWait != self.isWaitingForRoom else { return }
    self.isWaitingForRoom = mustWait
    self.reactor.watch(
      self.socket, for: !mustWait ? .input : self.isServer ? .room : .inputAndRoom)
  }

  /// - Returns: The number of bytes that the socket accepted, or `nil` if it accepts no more at
  ///   all.
  private func send(_ bytes: UnsafeRawBufferPointer) -> Int? {
    let sent = Glibc.send(self.socket, bytes.baseAddress, bytes.count, CInt(MSG_NOSIGNAL))
    guard sent < 0 else { return sent }
    return errno == EAGAIN || errno == EINTR ? 0 : nil
  }
}

// MARK: - The session's streams

extension HTTP2Connection: HTTP2SessionDelegate {
  func began(_ stream: Int32) { self.streams[stream] = self.owner?.stream(stream) }

  func received(_ stream: Int32, header name: Bytes, _ value: Bytes) {
    self.streams[stream]?.received(header: name, value)
  }

  func receivingHeaders(_ size: Int) {
    if self.owner?.admitsHeaders(size) == false {
      self.fault = self.fault ?? NGHTTP2_ENHANCE_YOUR_CALM
    }
  }

  func receivedHeaders(_ stream: Int32, isEnd: Bool) {
    _ = self.owner?.admitsHeaders(0)
    self.streams[stream]?.receivedHeaders(isEnd: isEnd)
  }

  func received(_ stream: Int32, data: UnsafeRawBufferPointer) {
    self.streams[stream]?.received(data)
  }

  func inputEnded(_ stream: Int32) { self.streams[stream]?.inputEnded() }

  func outputEnded(_ stream: Int32) { self.streams[stream]?.outputEnded() }

  func received(_ filler: HTTP2Session.Filler) {
    let isTooMany =
      switch filler {
      case .ping: self.pings.exceed()
      case .empty, .invalid: self.fillers.exceed()
      }
    if isTooMany { self.fault = self.fault ?? NGHTTP2_ENHANCE_YOUR_CALM }
  }

  func receivedForbidden() { self.fault = self.fault ?? NGHTTP2_PROTOCOL_ERROR }

  func sent(_ stream: Int32) {
    self.pings.forgive()
    self.streams[stream]?.isAnswered = true
  }

  func sentReset(_ stream: Int32) {
    // A stream without a response is counted when it closes. A client may cancel after the response
    // started, but must not make connd reset streams without limit (CVE-2025-8671).
    if self.isServer, self.streams[stream]?.isAnswered ?? false { self.received(.invalid) }
  }

  func gaveUp(_ error: UInt32) { self.fail(error, self.owner) }

  private func fail(_ error: UInt32, _ owner: (any HTTP2ConnectionOwner)?) {
    guard !self.hasFailed else { return }
    self.hasFailed = true
    owner?.connectionFailed(error)
  }

  func receivedGoAway(_ reason: String?) { self.owner?.peerIsLeaving(reason) }

  func fill(_ stream: Int32, _ frame: UnsafeMutableRawBufferPointer) -> HTTP2Session.Filling {
    self.streams[stream]?.fill(frame) ?? .nothing
  }

  func closed(_ stream: Int32, _ error: UInt32) {
    guard let closed = self.streams.removeValue(forKey: stream) else { return }
    // Rapid reset (CVE-2023-44487): well-behaved clients usually wait for a response.
    if error != NGHTTP2_NO_ERROR.rawValue, !closed.isAnswered { self.received(.invalid) }
    closed.closed(error)
  }
}
