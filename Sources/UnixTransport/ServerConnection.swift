import Glibc

/// A client's connection: its socket, its HTTP/2 session and its streams. It belongs to the reactor's thread.
final class ServerConnection: Pollable, HTTP2SessionDelegate {
  /// So much is read at a time: requests are small, and who sends many at once has some of them read, and then it is the
  /// others' turn.
  private static let longestRead = 4096

  let server: UnixServer
  let peer: PeerCredentials
  private let socket: CInt
  /// `nil` when the connection is closed.
  private(set) var session: HTTP2Session?
  private var streams: [Int32: ServerStream] = [:]
  /// What was to be sent and the socket did not take.
  private var unsent: [UInt8] = []
  private var isWaitingForRoom = false
  private var willBeFlushed = false
  private var fillers = FillerCount()
  /// It takes no more calls.
  private var isFinishing = false
  /// All was said, and the client is to close.
  private var isLingering = false

  /// Takes the socket, which does not block, and closes it in the end.
  init(_ socket: CInt, _ peer: PeerCredentials, _ server: UnixServer) {
    self.socket = socket
    self.peer = peer
    self.server = server
  }

  func begin() throws(SystemError) {
    try self.server.reactor.watch(self.socket, self)
    self.session = HTTP2Session(
      self, streams: self.server.settings.streamsPerConnection, headerSize: RequestHead.longest)
    self.flush()
  }

  /// Takes no more calls, and closes when those that there are have ended.
  func finish() {
    self.isFinishing = true
    self.session?.submitGoAway()
    for stream in self.streams.values { stream.finish() }
    self.flush()
  }

  /// Closes the socket, and ends what calls there are.
  func close() {
    guard let session = self.session else { return }
    self.session = nil
    self.server.reactor.forget(self.socket)
    Glibc.close(self.socket)
    self.unsent = []
    let streams = self.streams.values
    self.streams = [:]
    for stream in streams { stream.close() }
    self.server.closed(self, self.socket)
    withExtendedLifetime(session) {}
  }

  // MARK: The socket

  func ready() {
    if self.read() { self.flush() } else { self.close() }
  }

  /// - Returns: whether the connection goes on.
  private func read() -> Bool {
    withUnsafeTemporaryAllocation(byteCount: Self.longestRead, alignment: 1) { buffer in
      let count = recv(self.socket, buffer.baseAddress, buffer.count, 0)
      if count < 0 { return errno == EAGAIN || errno == EINTR }
      guard count > 0, let session = self.session else { return false }
      if session.receive(UnsafeRawBufferPointer(rebasing: buffer[..<count])) { return true }
      // nghttp2 has something to say about it, mostly.
      self.flush()
      return false
    }
  }

  /// Has it flushed when this turn's work has been done: frames that come together go together.
  func flushSoon() {
    guard !self.willBeFlushed else { return }
    self.willBeFlushed = true
    self.server.flushSoon(self)
  }

  /// Sends what there is to be sent, as far as the socket takes it, and closes when all was said.
  func flush() {
    self.willBeFlushed = false
    while let session = self.session, self.sendRest() {
      let scratch = self.server.scratch
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
      let sent = self.send(bytes)
      if sent < count { self.unsent = Array(bytes[sent...]) }
    }
  }

  /// Tells the client that nothing more comes. Who closes a socket that has something unread makes the other end's next
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
      let sent = self.unsent.withUnsafeBytes { self.send($0) }
      if sent < self.unsent.count {
        self.unsent.removeFirst(sent)
      } else {
        self.unsent = []
      }
    }
    let mustWait = !self.unsent.isEmpty
    if mustWait != self.isWaitingForRoom {
      self.isWaitingForRoom = mustWait
      self.server.reactor.watch(self.socket, forRoom: mustWait)
    }
    return !mustWait
  }

  /// - Returns: how many bytes the socket took. One whose client has gone takes none; reading tells so.
  private func send(_ bytes: UnsafeRawBufferPointer) -> Int {
    max(0, Glibc.send(self.socket, bytes.baseAddress, bytes.count, CInt(MSG_NOSIGNAL)))
  }

  // MARK: The session

  func began(_ stream: Int32) {
    self.streams[stream] = ServerStream(stream, self)
  }

  func received(_ stream: Int32, header name: Bytes, _ value: Bytes) {
    self.streams[stream]?.received(header: name, value)
  }

  func receivedHeaders(_ stream: Int32) {
    self.streams[stream]?.begin()
  }

  func received(_ stream: Int32, data: UnsafeRawBufferPointer) {
    self.streams[stream]?.received(data)
  }

  func inputEnded(_ stream: Int32) {
    self.streams[stream]?.inputEnded()
  }

  func outputEnded(_ stream: Int32) {
    self.streams[stream]?.outputEnded()
  }

  func receivedFiller() {
    if self.fillers.exceed() { self.session?.terminate() }
  }

  func fill(_ stream: Int32, _ frame: UnsafeMutableRawBufferPointer) -> MessageWriter.Filling {
    self.streams[stream]?.fill(frame) ?? .nothing
  }

  func closed(_ stream: Int32) {
    self.streams.removeValue(forKey: stream)?.close()
  }
}
