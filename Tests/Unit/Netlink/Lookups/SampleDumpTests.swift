import CLinux
import Connectivity
import Glibc
import TestKit
import Testing

@testable import Netlink

@Suite("Samples of sockets")
struct SampleDumpTests {
  private static func reply(
    to request: [UInt8], _ body: [UInt8], info: [UInt8]? = nil
  ) -> [UInt8] {
    var message = MessageBuilder(type: Int(SOCK_DIAG_BY_FAMILY), header: body)
    if let info { message.put(Int(INET_DIAG_INFO), info) }
    return message.bytes
  }

  private static func header(_ state: UInt8) -> [UInt8] {
    var header = [UInt8](repeating: 0, count: MemoryLayout<inet_diag_msg>.size)
    func put(_ bytes: [UInt8], at offset: Int) {
      header.replaceSubrange(offset..<offset + bytes.count, with: bytes)
    }
    put([UInt8(AF_INET), state, 4], at: 0)
    put(raw(UInt16(4711).bigEndian) + raw(UInt16(443).bigEndian), at: 4)
    put([192, 0, 2, 7], at: 8)
    put([203, 0, 113, 9], at: 24)
    put(raw(UInt32(3)) + raw(UInt64(99)), at: 40)
    for (offset, value) in [(56, 11), (60, 300), (64, 1000), (68, 77)] as [(Int, UInt32)] {
      put(raw(value), at: offset)
    }
    return header
  }

  @Test("Q7 a message of sock_diag → the sample has its fields", arguments: [232, 228, 160])
  func fields(size: Int) throws {
    var info = [UInt8](repeating: 0, count: 240)
    (info[2], info[4]) = (2, 3)
    for (offset, value) in [
      (8, 400_000), (16, 1448), (24, 5), (36, 1), (52, 900), (56, 800), (100, 6), (140, 7),
      (144, 8), (228, 9),
    ] as [(Int, UInt32)] {
      info.replaceSubrange(offset..<offset + 4, with: raw(value))
    }
    let bytes = Self.reply(to: [], Self.header(2), info: Array(info[..<size]))
    let part = try withMessage(bytes) { message in
      var part = SampleDump.Part()
      part.add(message, .tcp)
      return part
    }
    let sample = try #require(part.samples.first)
    #expect(sample.cookie == 99 && sample.inode == 77 && sample.user == 1000 && sample.link == 3)
    #expect(sample.sourcePort == 4711 && sample.port == 443 && sample.timer == 4)
    #expect(sample.unread == 11 && sample.queued == 300)
    #expect(sample.source == IPAddress("192.0.2.7") && sample.host == IPAddress("203.0.113.9"))
    let state = SocketSample.TCPState(
      isConnecting: true, timeouts: 2, backoff: 3, inFlight: 5, sentAgain: 1, resent: 6,
      received: 7, unsent: 8, segmentSize: 1448, window: size < 232 ? nil : 9,
      timeout: .milliseconds(400), silence: .milliseconds(800))
    #expect(sample.tcp == state)
  }

  @Test("D8 Q7 a listening socket, and messages without tcp_info or with missing bytes")
  func others() throws {
    func part(_ bytes: [UInt8], _ kind: SampleDump.Kind = .tcp) throws -> SampleDump.Part {
      try withMessage(bytes) { message in
        var part = SampleDump.Part()
        part.add(message, kind)
        return part
      }
    }
    let listening = try part(Self.reply(to: [], Self.header(10)))
    #expect(listening.listening == [4711] && listening.samples.isEmpty)
    #expect(try part(Self.reply(to: [], Self.header(1))).samples.isEmpty)
    let query = try part(Self.reply(to: [], Self.header(1)), .udp(port: 53))
    #expect(query.samples.first?.tcp == nil && query.samples.count == 1)
    for count in 0..<72 {
      let short = try part(Self.reply(to: [], Array(Self.header(1)[..<count])), .udp(port: 53))
      #expect(short.samples.isEmpty)
    }
  }

  @Test(
    "Q7 real sockets → TCP and UDP samples, each in one dump",
    .enabled(if: NetworkNamespace.isEnabled))
  func kernel() throws {
    let namespace = try NetworkNamespace()
    try namespace.ip("addr add 192.0.2.7/32 dev lo")
    let local = try address("192.0.2.7")
    let (sockets, dump) = try namespace.perform {
      let udp = [53, 54].map { port in
        let descriptor = socket(AF_INET, CInt(SOCK_DGRAM.rawValue), 0)
        _ = withSocketAddress(local, UInt16(port)) { connect(descriptor, $0, $1) }
        return descriptor
      }
      let server = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
      _ = withSocketAddress(local, 7000) { bind(server, $0, $1) }
      listen(server, 1)
      let client = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
      _ = withSocketAddress(local, 7000) { connect(client, $0, $1) }
      return (
        udp + [server, client], try SampleDump(on: KernelSockets().open(.socketDiagnosis))
      )
    }
    defer { sockets.forEach { close($0) } }
    func all(_ kind: SampleDump.Kind) throws -> SampleDump.Part {
      dump.begin(kind)
      var all = SampleDump.Part()
      while let part = try dump.next() {
        all.samples += part.samples
        all.listening.formUnion(part.listening)
      }
      return all
    }
    let tcp = try all(.tcp)
    #expect(tcp.listening.contains(7000))
    let client = try #require(tcp.samples.first { $0.port == 7000 })
    #expect(client.host == local && client.inode != 0 && client.cookie != 0)
    #expect(client.tcp?.isConnecting == false && client.tcp?.window ?? 0 > 0)
    #expect(tcp.samples.contains { $0.sourcePort == 7000 && $0.inode == 0 })
    // A kernel may lack the part of sock_diag for UDP.
    let udp = try all(.udp(port: 53)).samples
    #expect(udp.isEmpty || udp.map(\.port) == [53])
    #expect(try all(.tcp).samples.map(\.cookie).sorted() == tcp.samples.map(\.cookie).sorted())
  }
}
