import Expectation
import Glibc
import LinuxSupport

/// A client's manner: the size of its writes, whether it reads before it has written everything,
/// and whether it stays to read the rest.
struct Manner {
  var part: Int
  var readsEarly: Bool
  var stays: Bool

  init(_ byte: UInt8) {
    self.part = 1 << Int(byte & 0xF)
    self.readsEarly = byte & 0x80 != 0
    self.stays = byte & 0x40 == 0
  }
}

/// A handwritten client, up to the end of its connection.
struct Client {
  private let socket: CInt
  let manner: Manner
  private var output: [UInt8] = []
  private var isOver = false

  /// Limits a hang, in milliseconds: less than libFuzzer's own limit.
  private static let deadline: CInt = 8_000

  init(_ path: String, _ manner: Manner) {
    self.manner = manner
    self.socket = Glibc.socket(AF_UNIX, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
    let isConnected = withUnixAddress(path) { connect(self.socket, $0, $1) } == 0
    expect(isConnected, "connd takes no connections: \(errno)")
  }

  /// Sends everything that connd takes.
  mutating func send(_ input: [UInt8]) {
    var rest = input[...]
    while !rest.isEmpty, !self.isOver {
      // A client that never reads would wait for room forever, so it reads when the buffer is full.
      if self.isReady(POLLOUT, within: 0) {
        let part = Array(rest.prefix(self.manner.part))
        let count = Glibc.send(
          self.socket, part, part.count, CInt(MSG_NOSIGNAL) | CInt(MSG_DONTWAIT))
        if count < 0, errno != EAGAIN { break }
        rest = rest.dropFirst(max(count, 0))
        if self.manner.readsEarly { self.read(wait: 0) }
      } else {
        expect(
          self.isReady(POLLIN | POLLOUT, within: Self.deadline), "connd neither reads nor writes")
        self.read(wait: 0)
      }
    }
  }

  /// Reads until connd's output satisfies the condition, or ends.
  mutating func read(until isEnough: ([UInt8]) -> Bool) {
    while !self.isOver, !isEnough(self.output) { self.read(wait: Self.deadline) }
  }

  /// Neither sends nor reads any more.
  func leave() { close(self.socket) }

  /// Stops sending, and reads to the end.
  ///
  /// - Returns: connd's output.
  mutating func end() -> [UInt8] {
    shutdown(self.socket, CInt(SHUT_WR))
    while !self.isOver { self.read(wait: Self.deadline) }
    close(self.socket)
    return self.output
  }

  private func isReady(_ events: CInt, within milliseconds: CInt) -> Bool {
    var descriptor = pollfd(fd: self.socket, events: Int16(events), revents: 0)
    // libFuzzer's timer interrupts.
    while true {
      let count = poll(&descriptor, 1, milliseconds)
      if count >= 0 || errno != EINTR { return count > 0 }
    }
  }

  private mutating func read(wait milliseconds: CInt) {
    guard self.isReady(POLLIN, within: milliseconds) else {
      expect(milliseconds == 0, "the connection does not end")
      return
    }
    withUnsafeTemporaryAllocation(byteCount: 16 << 10, alignment: 1) { buffer in
      let count = recv(self.socket, buffer.baseAddress, buffer.count, CInt(MSG_DONTWAIT))
      if count > 0 {
        self.output += buffer[..<count]
      } else if count == 0 || errno != EAGAIN {
        self.isOver = true
      }
    }
  }
}
