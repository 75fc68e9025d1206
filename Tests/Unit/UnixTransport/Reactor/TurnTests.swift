import Glibc
import LinuxSupport
import TestKit
import Testing

@testable import UnixTransport

@Suite("Turns")
struct TurnTests {
  @Test(
    "D4 a client that breaks HTTP/2 and has gone does not affect the others",
    arguments: [
      Array("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".utf8),
      // PRIORITY on stream 0, and more PINGs than are answered together.
      preface + [0, 0, 5, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
      preface + Array(repeating: ping, count: 200).joined(),
    ])
  func gone(words: [UInt8]) async throws {
    try await ReactorTests.run { reactor in
      var ends: [CInt] = [0, 0]
      let type = CInt(SOCK_STREAM.rawValue) | CInt(SOCK_NONBLOCK.rawValue)
      try #require(socketpair(AF_UNIX, type, 0, &ends) == 0)
      let holder = Holder()
      let role = HTTP2Session.Role.server(streams: 8, headerSize: 8192)
      let connection = HTTP2Connection(ends[0], role, try #require(holder.owner), reactor)
      try connection.begin()
      send(ends[1], words, words.count, 0)
      close(ends[1])
      connection.ready()
      #expect(connection.session == nil && holder.owner == nil && holder.failures == 1)
    }
  }

  @Test(
    "D4 a connection with much to send sends a part, and then other connections have their turn")
  func turn() async throws {
    try await ReactorTests.run { reactor in
      var ends: [CInt] = [0, 0]
      let type = CInt(SOCK_STREAM.rawValue) | CInt(SOCK_NONBLOCK.rawValue)
      try #require(socketpair(AF_UNIX, type, 0, &ends) == 0)
      defer { close(ends[1]) }
      let owner = Nobody()
      let connection = HTTP2Connection(ends[0], .client, owner, reactor)
      defer { connection.close() }
      try connection.begin()
      let request: HeaderBlock = [":method": "POST", ":scheme": "http", ":path": "/t.T/Pour"]
      let stream = try #require(connection.session?.submitRequest(request))
      connection.add(Endless(), stream)
      // SETTINGS_INITIAL_WINDOW_SIZE, and WINDOW_UPDATE for the connection, both at the maximum.
      let windows: [UInt8] =
        [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0x7F, 0xFF, 0xFF, 0xFF]
        + [0, 0, 4, 8, 0, 0, 0, 0, 0, 0x7F, 0xFE, 0, 0]
      send(ends[1], windows, windows.count, 0)
      connection.ready()
      var waiting: CInt = 0
      #expect(ioctl(ends[1], UInt(FIONREAD), &waiting) == 0)
      #expect((32 << 10...64 << 10).contains(Int(waiting)), "the socket takes 200 KiB")
    }
  }
}

/// A client's preface: RFC 9113, 3.4.
private let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + [0, 0, 0, 4, 0, 0, 0, 0, 0]

private let ping: [UInt8] = [0, 0, 8, 6, 0] + Array(repeating: 0, count: 12)

/// Holds the owner of a connection while that is open.
private final class Holder {
  private(set) var owner: Owner?
  private(set) var failures = 0

  init() { self.owner = Owner(self) }

  final class Owner: HTTP2ConnectionOwner {
    let account = Account.root
    private unowned let holder: Holder

    init(_ holder: Holder) { self.holder = holder }

    func stream(_ id: Int32) -> (any HTTP2Stream)? { nil }
    func connectionFailed(_ error: UInt32) { self.holder.failures += 1 }
    func peerIsLeaving(_ reason: String?) {}
    func connectionClosed() { self.holder.owner = nil }
  }
}

private final class Nobody: HTTP2ConnectionOwner {
  let account = Account.root
  func stream(_ id: Int32) -> (any HTTP2Stream)? { nil }
  func connectionFailed(_ error: UInt32) {}
  func peerIsLeaving(_ reason: String?) {}
  func connectionClosed() {}
}

/// A stream that always has more to send.
private final class Endless: HTTP2Stream {
  var isAnswered = false
  func received(header name: Bytes, _ value: Bytes) {}
  func receivedHeaders(isEnd: Bool) {}
  func received(_ data: UnsafeRawBufferPointer) {}
  func inputEnded() {}
  func outputEnded() {}
  func fill(_ frame: UnsafeMutableRawBufferPointer) -> HTTP2Session.Filling { .bytes(frame.count) }
  func closed(_ error: UInt32?) {}
}
