import CNghttp2
import Glibc
import LinuxSupport
import Testing

@testable import UnixTransport

@Suite("Encoded headers")
struct EncodedHeadersTests {
  private static func frame(_ type: UInt8, _ flags: UInt8, _ stream: UInt8, _ bytes: [UInt8])
    -> [UInt8]
  {
    [0, UInt8(bytes.count >> 8 & 0xff), UInt8(bytes.count & 0xff), type, flags, 0, 0, 0, stream]
      + bytes
  }

  /// Headers of this size: one long literal, in frames of 8 KiB.
  private static func headers(_ size: Int, of stream: UInt8) -> [UInt8] {
    let length = size - 7 - 127
    let value = [0x7f, UInt8(0x80 | length & 0x7f), UInt8(0x80 | length >> 7 & 0x7f)]
    let block = [0, 1, UInt8(ascii: "x")] + value + [UInt8(length >> 14)]
    var rest = (block + [UInt8](repeating: 0x79, count: size - block.count))[...]
    var frames: [UInt8] = []
    while !rest.isEmpty {
      let part = Array(rest.prefix(8192))
      rest = rest.dropFirst(part.count)
      frames += Self.frame(frames.isEmpty ? 1 : 9, rest.isEmpty ? 4 : 0, stream, part)
    }
    return frames
  }

  /// Sends input, and reads until the answer to a final PING, or until the server disconnects. Runs
  /// on a thread of its own, because the server's tasks need those of Swift.
  ///
  /// - Returns: Whether the connection continues.
  private static func exchange(_ input: [UInt8], _ socket: CInt) async -> Bool {
    await withCheckedContinuation { continuation in
      let hasStarted = Thread.start(named: "client") {
        continuation.resume(returning: Self.exchangeBlocking(input, socket))
      }
      if !hasStarted { continuation.resume(returning: false) }
    }
  }

  private static func exchangeBlocking(_ input: [UInt8], _ socket: CInt) -> Bool {
    _ = fcntl(socket, F_SETFL, 0)
    let ping = Self.frame(6, 0, 0, Array("connd123".utf8))
    let answer = Self.frame(6, 1, 0, Array("connd123".utf8))
    let output =
      Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + Self.frame(4, 0, 0, []) + input + ping
    // The server may disconnect before it has read everything.
    send(socket, output, output.count, CInt(MSG_NOSIGNAL))
    var (received, buffer): ([UInt8], [UInt8]) = ([], [UInt8](repeating: 0, count: 4096))
    while true {
      let count = recv(socket, &buffer, buffer.count, 0)
      guard count > 0 else { return false }
      received += buffer[..<count]
      // Resets of the calls may follow.
      if received.indices.contains(where: { received[$0...].starts(with: answer) }) { return true }
    }
  }

  @Test(
    "D4 the headers of a call are larger than allowed → the connection ends before they are kept",
    arguments: [
      // size, memory of the account, the connection continues
      (16_384, 1 << 20, true), (16_385, 1 << 20, false), (60_000, 1 << 20, false),
      (16_384, 20_000, false), (9000, 20_000, true), (2000, 0, true), (2100, 0, false),
    ])
  func limit(size: Int, memory: Int, continues: Bool) async throws {
    try await TestServer.run(connectedSocket) { socket, admission, _, _ in
      defer { close(socket) }
      admission.mostMemory = memory
      let input = (0..<3).flatMap { Self.headers(size, of: 2 * $0 + 1) }
      #expect(await Self.exchange(input, socket) == continues)
      #expect(admission.failures == (continues ? [] : [NGHTTP2_ENHANCE_YOUR_CALM.rawValue]))
    }
  }
}
