import Glibc
import Testing

@testable import UnixTransport

@Suite("Turns")
struct TurnTests {
  @Test("D4 users have equal shares of the time, whatever each of their turns takes")
  func shares() {
    var share = FairShare<Int>()
    var taken: [UInt32: Int] = [:]
    // The first wants long turns on a hundred connections, the second short ones on one.
    for item in 0..<100 { share.append(item, of: 1) }
    share.append(0, of: 2)
    for _ in 0..<1000 {
      guard let turn = share.popFirst() else { break }
      let time = turn.user == 1 ? 10 : 1
      taken[turn.user, default: 0] += time
      share.append(turn.item, of: turn.user)
      share.charge(.milliseconds(time), to: turn.user)
    }
    #expect(abs((taken[1] ?? 0) - (taken[2] ?? 0)) <= 20)
  }

  @Test("D4 who wants something now and then is next, and has saved nothing up")
  func newcomer() {
    var share = FairShare<Int>()
    func takeTurn() -> UInt32? {
      guard let user = share.takeTurn() else { return nil }
      share.append(0, of: user)
      share.charge(.milliseconds(1), to: user)
      return user
    }
    for user: UInt32 in 1...3 { share.append(0, of: user) }
    for _ in 0..<300 { #expect(takeTurn() != nil) }
    share.append(0, of: 9)
    #expect((0..<4).compactMap { _ in takeTurn() }.count { $0 == 9 } == 1)
    let turns = (0..<400).compactMap { _ in takeTurn() }
    #expect((95...105).contains(turns.count { $0 == 9 }))
  }

  @Test("D4 a second user who comes in the turn of one who was alone gets as much from then on")
  func secondUser() {
    var share = FairShare<Int>()
    for item in 0..<100 { share.append(item, of: 1) }
    for _ in 0..<50 {
      #expect(share.takeTurn() == 1)
      share.charge(.milliseconds(10), to: 1)
    }
    // In the midst of a turn.
    #expect(share.popFirst()?.item == 50)
    for item in 0..<40 { share.append(item, of: 2) }
    share.charge(.milliseconds(10), to: 1)
    let users = (0..<40).compactMap { _ in
      let user = share.takeTurn()
      if let user { share.charge(.milliseconds(10), to: user) }
      return user
    }
    #expect((19...21).contains(users.count { $0 == 1 }))
    // Nothing was lost.
    var left = 0
    while share.takeTurn() != nil { left += 1 }
    #expect(left == 49 + 40 - 40 && share.isEmpty)
  }

  @Test("D4 of users who have gone nothing is kept")
  func forgotten() throws {
    var share = FairShare<Int>()
    // One stays, so that somebody waits all the time, and does not in vain.
    var turns = 0
    share.append(0, of: 0)
    for user: UInt32 in 1...10_000 {
      share.append(0, of: user)
      for _ in 0..<2 {
        let user = share.takeTurn()
        share.charge(.milliseconds(1), to: try #require(user))
        if user == 0 {
          turns += 1
          share.append(0, of: 0)
        }
      }
    }
    #expect(turns > 5000)
    let accounts = Mirror(reflecting: share).children.first { $0.label == "accounts" }
    #expect(Mirror(reflecting: try #require(accounts).value).children.count < 100)
    while let user = share.takeTurn() { share.charge(.milliseconds(1), to: user) }
    #expect(share.isEmpty)
  }

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
  let user: UInt32 = 0
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

extension FairShare {
  fileprivate mutating func takeTurn() -> UInt32? { self.popFirst()?.user }
}
