import ConnectivityMonitor
import Glibc
import TestKit
import Testing

/// The question to the peer of an idle TCP connection.
@Suite("Keepalive probes", .timeLimit(.minutes(5)), .namesWaits)
struct KeepaliveProbeTests {
  /// A socket by its descriptor.
  private struct Socket: SocketOptions {
    let descriptor: CInt

    func option<Value: BitwiseCopyable & Sendable>(
      _ level: CInt, _ name: CInt, _ empty: Value
    ) -> Value? {
      var value = empty
      var length = socklen_t(MemoryLayout<Value>.size)
      return getsockopt(self.descriptor, level, name, &value, &length) == 0 ? value : nil
    }

    func set(_ level: CInt, _ name: CInt, _ value: CInt) -> Bool {
      var value = value
      let length = socklen_t(MemoryLayout<CInt>.size)
      return setsockopt(self.descriptor, level, name, &value, length) == 0
    }

    /// `SO_KEEPALIVE` and `TCP_KEEPIDLE`.
    var keepalive: [CInt?] {
      [self.option(SOL_SOCKET, SO_KEEPALIVE, CInt(0)), self.option(6, TCP_KEEPIDLE, CInt(0))]
    }

    /// Drops all packets that arrive from now on.
    func dropInput() -> Bool {
      // struct sock_filter: BPF_RET | BPF_K, with 0 bytes.
      let program = SIMD2<UInt32>(6, 0)
      return withUnsafePointer(to: program) { program in
        // struct sock_fprog: the number of instructions, and their address.
        let filter = SIMD2<UInt>(1, UInt(bitPattern: program))
        return withUnsafePointer(to: filter) {
          setsockopt(self.descriptor, SOL_SOCKET, SO_ATTACH_FILTER, $0, 16) == 0
        }
      }
    }

    /// The number of probes without an answer.
    var unanswered: UInt8 { self.option(6, TCP_INFO, SIMD4<UInt8>.zero)?[3] ?? 0 }

    /// The number of segments that were sent and received (`struct tcp_info`).
    var segments: (sent: UInt32, received: UInt32) {
      let words = self.option(6, TCP_INFO, SIMD64<UInt32>.zero) ?? .zero
      return (words[34], words[35])
    }
  }

  @Test(
    "E4 an idle connection → one probe, which the peer answers, and then the options are as before",
    arguments: [(0, 7200), (1, 600)] as [(CInt, CInt)])
  func probe(isOn: CInt, idleTime: CInt) throws {
    let listener = try SilentListener()
    let connection = try LoopbackSocket(port: listener.port)
    let socket = Socket(descriptor: connection.descriptor)
    #expect(socket.set(6, TCP_KEEPIDLE, idleTime) && socket.set(SOL_SOCKET, SO_KEEPALIVE, isOn))
    let before = socket.segments
    let probe = try #require(KeepaliveProbe(on: socket))
    #expect(socket.keepalive == [1, 1])
    let maxWait = Patience(.seconds(20))
    while socket.segments.received == before.received, !maxWait.isOver { poll(nil, 0, 10) }
    #expect(socket.segments.received == before.received + 1)
    #expect(socket.segments.sent == before.sent + 1)
    probe.end(on: socket)
    #expect(socket.keepalive == [isOn, idleTime])
  }

  @Test("E4 a probe is lost → repeated, and no more often than the kernel's limit allows")
  func repeated() throws {
    let listener = try SilentListener()
    let connection = try LoopbackSocket(port: listener.port)
    let socket = Socket(descriptor: connection.descriptor)
    // Answers are dropped: the socket accepts no packet any more.
    #expect(socket.dropInput())
    // connd may ask twice more.
    #expect(socket.set(6, TCP_KEEPCNT, 6))
    var probe = try #require(KeepaliveProbe(on: socket))
    for count in [UInt8(1), 2, 3] {
      let maxWait = Patience(.seconds(20))
      while socket.unanswered < count, !maxWait.isOver { poll(nil, 0, 10) }
      #expect(socket.unanswered == count)
      probe.repeat(on: socket)
    }
    // The rest is for the questions that follow.
    let before = socket.segments.sent
    probe.repeat(on: socket)
    #expect(socket.segments.sent == before)
    probe.end(on: socket)
    #expect(socket.keepalive == [0, 7200])
  }

  @Test("E4 C11 a timeout of our own is set → probes are repeated, whatever their limit is")
  func withTimeout() throws {
    let listener = try SilentListener()
    let connection = try LoopbackSocket(port: listener.port)
    let socket = Socket(descriptor: connection.descriptor)
    // With one probe allowed, the kernel would end a connection without a timeout.
    #expect(socket.set(6, TCP_USER_TIMEOUT, 924_600) && socket.set(6, TCP_KEEPCNT, 1))
    #expect(socket.dropInput())
    var probe = try #require(KeepaliveProbe(on: socket))
    for count in [UInt8(1), 2, 3] {
      let maxWait = Patience(.seconds(20))
      while socket.unanswered < count, !maxWait.isOver { poll(nil, 0, 10) }
      #expect(socket.unanswered == count)
      probe.repeat(on: socket)
    }
    probe.end(on: socket)
    #expect(socket.keepalive == [0, 7200])
    #expect(socket.option(6, TCP_USER_TIMEOUT, CInt(0)) == 924_600)
    // The next question is asked, too.
    try #require(KeepaliveProbe(on: socket)).end(on: socket)
  }

  @Test("E4 not a TCP socket → no probe")
  func datagram() {
    let descriptor = socket(AF_UNIX, CInt(SOCK_DGRAM.rawValue), 0)
    defer { close(descriptor) }
    #expect(KeepaliveProbe(on: Socket(descriptor: descriptor)) == nil)
  }
}
