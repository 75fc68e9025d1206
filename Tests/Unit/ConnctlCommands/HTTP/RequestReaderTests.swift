import Glibc
import Testing

@testable import ConnctlCommands

@Suite("Reading an HTTP request")
struct RequestReaderTests {
  /// Reads the head of a request that a client sends in pieces.
  ///
  /// - Returns: The head, the status of the refusal, or `nothing`.
  private func head(_ pieces: [String], closing: Bool, timeout: Duration) throws -> String {
    var ends: [CInt] = [-1, -1]
    try #require(socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0, &ends) == 0)
    defer { ends.forEach { close($0) } }
    for piece in pieces { #expect(write(ends[1], piece, piece.utf8.count) == piece.utf8.count) }
    if closing { shutdown(ends[1], CInt(SHUT_WR)) }
    do {
      return try RequestReader(ends[0], timeout: timeout).head() ?? "nothing"
    } catch {
      return String(error.status.prefix(3))
    }
  }

  @Test(
    "bytes of a client that waits → the head before the empty line, or a status",
    arguments: [
      (["GET / HTTP/1.0\r\n\r\n"], "GET / HTTP/1.0"),
      (["GET / HT", "TP/1.0\r", "\nA: b\r\n", "\r\nbody"], "GET / HTTP/1.0\r\nA: b"),
      (["GET / HTTP/1.0\n\n"], "GET / HTTP/1.0"),
      ([String(repeating: "a", count: 8191) + "\r\n\r\n"], "431"),
      ([String(repeating: "\r\n", count: 2)], ""),
    ])
  func complete(pieces: [String], expected: String) throws {
    #expect(try self.head(pieces, closing: false, timeout: .seconds(60)) == expected)
  }

  @Test(
    "a client that closes before the empty line → 400; one that says nothing → no response",
    arguments: [(["GET / HTTP/1.0\r\n"], "400"), (["\n"], "400"), ([], "nothing")])
  func closed(pieces: [String], expected: String) throws {
    #expect(try self.head(pieces, closing: true, timeout: .seconds(60)) == expected)
  }

  @Test("a client that stays silent, or stops in its request → 408", arguments: [[], ["GET /"]])
  func silent(pieces: [String]) throws {
    #expect(try self.head(pieces, closing: false, timeout: .milliseconds(20)) == "408")
  }
}
