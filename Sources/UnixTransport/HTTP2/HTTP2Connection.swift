import CLinux
import CNghttp2
import Glibc

/// A stream of a connection: what comes in it, and what is to go out.
protocol HTTP2Stream: AnyObject {
  typealias Bytes = UnsafeBufferPointer<UInt8>

  func received(header name: Bytes, _ value: Bytes)
  /// - Parameter isEnd: whether the other end sends no more.
  func receivedHeaders(isEnd: Bool)
  func received(_ data: UnsafeRawBufferPointer)
  /// The other end sends no more.
  func inputEnded()
  /// What was handed in with an end was sent.
  func outputEnded()
  /// Whether any of it was sent.
  var isAnswered: Bool { get set }
  /// There is room for so much data.
  func fill(_ frame: UnsafeMutableRawBufferPointer) -> HTTP2Session.Filling
  /// - Parameter error: of HTTP/2 (RFC 9113, 7); `nil` where the whole connection was closed.
  func closed(_ error: UInt32?)
}

/// Whose connection it is.
protocol HTTP2ConnectionOwner: AnyObject {
  /// The account whose time the connection takes.
  var account: Account { get }
  /// The other end begins a stream; `nil` where it may not.
  func stream(_ id: Int32) -> (any HTTP2Stream)?
  /// The connection is about to be closed because of what the other end has sent.
  ///
  /// - Parameter error: of HTTP/2 (RFC 9113, 7).
  func connectionFailed(_ error: UInt32)
  /// The connection was closed, by whichever side, and its streams with it.
  func connectionClosed()
}

/// A socket, the HTTP/2 session that is spoken over it, and its streams. It belongs to the reactor's thread.
final class HTTP2Connection: Pollable {
  /// So much is read at a time: messages are small, and who sends many at once has some of them read, and then it is the
  /// others' turn.
  private static let longestRead = 4096

  private let socket: CInt
  private let reactor: Reactor
  private let isServer: Bool
  let owningAccount: Account
  var account: Account? { self.owningAccount }
  /// `nil` when the connection is closed.
  private var owner: (any HTTP2ConnectionOwner)?
  /// `nil` then, too.
  private(set) var session: HTTP2Session?
  private(set) var streams: [Int32: any HTTP2Stream] = [:]
  /// What was to be sent and the socket did not take.
  private var unsent: [UInt8] = []
  private var isWaitingForRoom = false
  private var willBeFlushed = false
  private var pings = FillerCount()
  private var fillers = FillerCount()
  /// Why it is to be closed: it has sent too many of either, or what the protocol forbids.
  private var fault: nghttp2_error_code?
  /// The owner has heard that it is to be closed.
  private var hasFailed = false
  /// It takes no more streams.
  private var isFinishing = false
  /// All was said, and the other end is to close.
  private var isLingering = false

  /// Takes the socket, which does not block, and closes it in the end.
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
    // It may be closed already, and its descriptor another's.
    guard self.session != nil else { return }
    try self.reactor.watch(self.socket, self)
    self.flush()
  }

  /// Takes no more streams, and closes when those that there are have ended.
  func finish() {
    self.isFinishing = true
    self.session?.submitGoAway()
    self.flushSoon()
  }

  func close() {
    guard let session = self.session else { return }
    self.session = nil
    self.reactor.forget(self.socket)
    Glibc.close(self.socket)
    self.unsent = []
    let streams = self.streams.values
    self.streams = [:]
    for stream in streams { stream.closed(nil) }
    self.owner.take()?.connectionClosed()
    withExtendedLifetime(session) {}
  }

  /// Takes a stream that this end has begun.
  func add(_ stream: any HTTP2Stream, _ id: Int32) { self.streams[id] = stream }

  // MARK: Reading

  func ready() {
    guard self.isWaitingForRoom, self.isServer else {
      if self.read() { self.flush() } else { self.close() }
      return
    }
    // A client that does not take what is said has nothing more read, for that leads to more that is to be said; but its end is
    // heard. (One that did the same to its server would wait for it for ever.)
    self.flush()
    if self.isWaitingForRoom, self.hasHungUp { self.close() }
  }

  private var hasHungUp: Bool {
    var descriptor = pollfd(
      fd: self.socket, events: Int16(EPOLLRDHUP.rawValue), revents: 0)
    return poll(&descriptor, 1, 0) > 0
  }

  /// - Returns: whether the connection goes on.
  private func read() -> Bool {
    withUnsafeTemporaryAllocation(byteCount: Self.longestRead, alignment: 1) { buffer in
      let count = recv(self.socket, buffer.baseAddress, buffer.count, 0)
      if count < 0 { return errno == EAGAIN || errno == EINTR }
      guard count > 0, let session = self.session else { return false }
      let isWell = session.receive(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
      if isWell, self.fault == nil { return true }
      let owner = self.owner
      if let fault = self.fault { session.terminate(fault) }
      // nghttp2 has something to say about it, mostly. Whoever does not wait for that is to be counted all the same.
      self.flush()
      self.fail(UInt32(NGHTTP2_PROTOCOL_ERROR.rawValue), owner)
      return false
    }
  }

  // MARK: Writing

  /// Has it flushed when this turn's work has been done: frames that come together go together.
  func flushSoon() {
    guard !self.willBeFlushed else { return }
    self.willBeFlushed = true
    self.reactor.flushSoon(self)
  }

  /// Sends what there is to be sent, as far as the socket takes it, and closes when all was said. Of much it sends a part, and
  /// then it is the others' turn.
  func flush() {
    self.willBeFlushed = false
    while let session = self.session, self.sendRest() {
      let scratch = self.reactor.scratch
      var count = 0
      while count < scratch.count - HTTP2Session.longestFrame, let frame = session.nextOutput() {
        UnsafeMutableRawBufferPointer(rebasing: scratch[count...]).copyMemory(from: frame)
        count += frame.count
      }
      guard count > 0 else {
        if session.isOver { self.linger() }
        return
      }
      let bytes = UnsafeRawBufferPointer(rebasing: scratch[..<count])
      guard let sent = self.send(bytes) else { return self.close() }
      if sent < count {
        self.unsent = Array(bytes[sent...])
        self.watchForRoom(true)
      } else if count >= scratch.count - HTTP2Session.longestFrame {
        return self.flushSoon()
      }
    }
  }

  /// Tells the other end that nothing more comes. Who closes a socket that has something unread makes the other end's next
  /// writing fail (unix(7)), and some clients then read no more, not even how their calls ended.
  private func linger() {
    guard !self.isLingering else { return }
    guard self.isFinishing else { return self.close() }
    self.isLingering = true
    shutdown(self.socket, CInt(SHUT_WR))
  }

  /// - Returns: whether there is nothing left of it.
  private func sendRest() -> Bool {
    if !self.unsent.isEmpty {
      guard let sent = self.unsent.withUnsafeBytes({ self.send($0) }) else {
        self.close()
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

  /// - Returns: how many bytes the socket took; `nil` where it takes no more, ever.
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

  func receivedHeaders(_ stream: Int32, isEnd: Bool) {
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

  func gaveUp(_ error: UInt32) { self.fail(error, self.owner) }

  private func fail(_ error: UInt32, _ owner: (any HTTP2ConnectionOwner)?) {
    guard !self.hasFailed else { return }
    self.hasFailed = true
    owner?.connectionFailed(error)
  }

  func fill(_ stream: Int32, _ frame: UnsafeMutableRawBufferPointer) -> HTTP2Session.Filling {
    self.streams[stream]?.fill(frame) ?? .nothing
  }

  func closed(_ stream: Int32, _ error: UInt32) {
    guard let closed = self.streams.removeValue(forKey: stream) else { return }
    // Rapid reset (CVE-2023-44487): whoever means well waits for an answer, mostly.
    if error != NGHTTP2_NO_ERROR.rawValue, !closed.isAnswered { self.received(.invalid) }
    closed.closed(error)
  }
}
