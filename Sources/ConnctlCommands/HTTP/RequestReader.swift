import Glibc

/// Reads an HTTP request from the connection of a socket unit.
struct RequestReader {
  static let maxBytes = 8192
  static let readTimeout = Duration.seconds(5)

  let descriptor: CInt
  private let deadline: ContinuousClock.Instant

  /// - Parameter timeout: The time from now on for all reads.
  init(_ descriptor: CInt, timeout: Duration = Self.readTimeout) {
    self.descriptor = descriptor
    self.deadline = .now + timeout
  }

  /// Returns the lines before the first empty one, or `nil` if the client sends nothing and closes
  /// the connection.
  ///
  /// - Throws: The response to a request that is incomplete, too long or late.
  func head() throws(HTTPRefusal) -> String? {
    var bytes: [UInt8] = []
    while bytes.count < Self.maxBytes {
      guard let part = self.read() else { throw .late }
      guard !part.isEmpty else {
        if bytes.isEmpty { return nil }
        throw .malformed("the request ends before its empty line")
      }
      bytes += part
      if let end = Self.endOfHead(bytes) { return String(decoding: bytes[..<end], as: UTF8.self) }
    }
    throw .tooLarge
  }

  /// Ends the response, and reads what the client still sends. Otherwise the kernel would reset the
  /// connection, and the client could lose the response.
  func finish() {
    guard shutdown(self.descriptor, CInt(SHUT_WR)) == 0 else { return }
    while let part = self.read(), !part.isEmpty {}
  }

  /// Returns the index of the line end before the first empty line, or `nil`.
  private static func endOfHead(_ bytes: [UInt8]) -> Int? {
    let (cr, lf) = (UInt8(ascii: "\r"), UInt8(ascii: "\n"))
    for index in bytes.indices where bytes[index] == lf {
      let rest = bytes[(index + 1)...]
      if rest.first == lf || rest.starts(with: [cr, lf]) {
        return index > 0 && bytes[index - 1] == cr ? index - 1 : index
      }
    }
    return nil
  }

  /// Returns the next bytes, an empty array at the end or after an error, or `nil` after the
  /// deadline.
  private func read() -> [UInt8]? {
    while true {
      let left = ContinuousClock.now.duration(to: self.deadline)
      guard left > .zero else { return nil }
      var input = pollfd(fd: self.descriptor, events: Int16(POLLIN), revents: 0)
      let milliseconds = left / .milliseconds(1)
      guard poll(&input, 1, CInt(milliseconds) + 1) > 0 else { continue }
      var part = [UInt8](repeating: 0, count: 1024)
      let count = Glibc.read(self.descriptor, &part, part.count)
      if count < 0, errno == EINTR || errno == EAGAIN { continue }
      return Array(part.prefix(max(0, count)))
    }
  }
}
