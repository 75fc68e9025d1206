import Glibc
import Testing

@testable import UnixTransport

@Suite("Turns")
struct TurnTests {
  @Test("D4 a connection sends a part of much at a time, and then it is the others' turn")
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
      // SETTINGS_INITIAL_WINDOW_SIZE, and WINDOW_UPDATE for the connection: as much as there may be.
      let windows: [UInt8] =
        [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0x7F, 0xFF, 0xFF, 0xFF]
        + [0, 0, 4, 8, 0, 0, 0, 0, 0, 0x7F, 0xFE, 0, 0]
      send(ends[1], windows, windows.count, 0)
      connection.ready()
      var waiting: CInt = 0
      ioctl(ends[1], UInt(FIONREAD), &waiting)
      #expect((32 << 10...64 << 10).contains(Int(waiting)), "the socket takes 200 KiB")
    }
  }
}

private final class Nobody: HTTP2ConnectionOwner {
  func stream(_ id: Int32) -> (any HTTP2Stream)? { nil }
  func connectionFailed(_ error: UInt32) {}
  func connectionClosed() {}
}

/// There is always more to send.
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
