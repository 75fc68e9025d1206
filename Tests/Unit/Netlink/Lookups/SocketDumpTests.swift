import CLinux
import Connectivity
import Glibc
import TestKit
import Testing

@testable import Netlink

@Suite("The sockets of connections and subflows")
struct SocketDumpTests {
  private struct Row: Sendable, CustomTestStringConvertible {
    var name: String
    /// The state, by its number in net/tcp_states.h.
    var state: UInt8 = 1
    var inode: UInt32 = 0
    var queued: UInt32 = 0
    var protocolName: String? = "mptcp"
    var token: UInt32? = 9
    var isOpen = false
    var isSubflow = true
    var testDescription: String { self.name }

    /// The kernel's report about the socket.
    var bytes: [UInt8] {
      var header = [UInt8](repeating: 0, count: MemoryLayout<inet_diag_msg>.size)
      func put(_ bytes: [UInt8], at offset: Int) {
        header.replaceSubrange(offset..<offset + bytes.count, with: bytes)
      }
      put([UInt8(AF_INET), self.state], at: 0)
      put([192, 0, 2, 7], at: 8)
      put([203, 0, 113, 9], at: 24)
      put(raw(self.queued), at: 60)
      put(raw(self.inode), at: 68)
      var message = MessageBuilder(type: Int(SOCK_DIAG_BY_FAMILY), header: header)
      message.put(Int(INET_DIAG_INFO), [UInt8](repeating: 0, count: 160))
      guard let name = self.protocolName else { return message.bytes }
      var nested = Self.attribute(Int(INET_ULP_INFO_NAME), Array(name.utf8) + [0])
      if let token = self.token {
        // MPTCP_SUBFLOW_ATTR_TOKEN_REM and MPTCP_SUBFLOW_ATTR_TOKEN_LOC
        let tokens = Self.attribute(1, raw(UInt32(5))) + Self.attribute(2, raw(token))
        nested += Self.attribute(Int(INET_ULP_INFO_MPTCP), tokens)
      }
      message.put(Int(INET_DIAG_ULP_INFO), nested)
      return message.bytes
    }

    private static func attribute(_ type: Int, _ payload: [UInt8]) -> [UInt8] {
      raw(UInt16(4 + payload.count)) + raw(UInt16(type)) + payload
        + Array(repeating: 0, count: -payload.count & 3)
    }
  }

  private static let rows: [Row] = [
    Row(name: "an open connection", inode: 7, isOpen: true),
    Row(name: "an open connection that waits for the peer's end", state: 5, inode: 7, isOpen: true),
    Row(
      name: "an open connection of TCP", inode: 7, protocolName: nil, isOpen: true,
      isSubflow: false),
    Row(
      name: "an open connection of TCP with kernel TLS", inode: 7, protocolName: "tls", token: nil,
      isOpen: true, isSubflow: false),
    Row(name: "the kernel reports no token", inode: 7, token: nil, isOpen: true),
    Row(name: "a connection that fell back early has token 0", inode: 7, token: 0, isOpen: true),
    Row(name: "a connection that waits for accept, or is closed"),
    Row(name: "a closed connection after the peer's end", state: 8),
    Row(name: "a closed connection that fell back, and still sends", state: 4, queued: 2),
    Row(name: "a closed connection that waits for its FIN", state: 4, queued: 1, isSubflow: false),
    Row(name: "a closed connection that waits for the peer's FIN", state: 5, isSubflow: false),
    Row(name: "a closed connection of TCP", protocolName: nil, isSubflow: false),
  ]

  @Test("M6 D4 a socket's inode, state and ULP → the dumps that return it", arguments: rows)
  private func selection(row: Row) throws {
    let open = try withMessage(row.bytes) { OpenConnection(message: $0, .open) }
    #expect((open != nil) == row.isOpen)
    let subflow = try withMessage(row.bytes) { OpenConnection(message: $0, .subflows) }
    #expect((subflow != nil) == row.isSubflow)
    if let subflow {
      #expect(subflow.isSubflow && subflow.inode == UInt64(row.inode))
      #expect(subflow.token == (row.token == 0 ? nil : row.token))
    }
  }

  // MARK: - The kernel

  private static let multipath: CInt = 262  // IPPROTO_MPTCP

  private static var hasMultipath: Bool {
    NetworkNamespace.isEnabled && (try? StreamSocket(Self.multipath)) != nil
  }

  @Test(
    "M6 D4 connections wait for accept → only the dump of subflows has them, with their tokens",
    .enabled(if: Self.hasMultipath, "no network namespaces, or no Multipath TCP"))
  func kernel() throws {
    let namespace = try NetworkNamespace()
    try namespace.ip("addr add 192.0.2.7/32 dev lo")
    let local = try address("192.0.2.7")
    // The second server lacks Multipath TCP, so its client falls back to TCP.
    let (servers, clients) = try namespace.perform {
      let servers = try [Self.multipath, 0].map { try StreamSocket($0) }
      let clients = try servers.map { _ in try StreamSocket(Self.multipath) }
      return (servers, clients)
    }
    for (number, (server, client)) in zip(servers, clients).enumerated() {
      let port = UInt16(7000 + number)
      #expect(server.listen(local, port) && client.connect(local, port), "errno \(errno)")
      #expect(server.awaitConnection())
    }
    func dump(_ selection: SocketDump.Selection) throws -> [OpenConnection] {
      let dump = try namespace.perform { try SocketDump(selection) }
      var connections: [OpenConnection] = []
      while let part = try dump.next() { connections += part }
      return connections
    }
    let open = try dump(.open)
    #expect(open.map { $0.destination.transport?.remotePort ?? 0 }.sorted() == [7000, 7001])
    #expect(open.allSatisfy { $0.inode != 0 && $0.isSubflow })
    let subflows = try dump(.subflows)
    #expect(subflows.count == 3)
    let waiting = subflows.filter { $0.inode == 0 }
    #expect(waiting.map { $0.destination.transport?.localPort } == [7000])
    #expect(Set(subflows.compactMap(\.token)).count == 3)
  }
}

/// A stream socket that is closed with the last reference.
private final class StreamSocket {
  private let descriptor: CInt

  init(_ number: CInt) throws {
    self.descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue), number)
    guard self.descriptor >= 0 else { throw NetlinkError(operation: "socket", code: errno) }
  }

  deinit { close(self.descriptor) }

  func listen(_ address: IPAddress, _ port: UInt16) -> Bool {
    withSocketAddress(address, port) { Glibc.bind(self.descriptor, $0, $1) } == 0
      && Glibc.listen(self.descriptor, 8) == 0
  }

  func connect(_ address: IPAddress, _ port: UInt16) -> Bool {
    withSocketAddress(address, port) { Glibc.connect(self.descriptor, $0, $1) } == 0
  }

  /// Waits until a connection can be accepted, and returns whether one can.
  func awaitConnection() -> Bool {
    var waiting = pollfd(fd: self.descriptor, events: Int16(POLLIN), revents: 0)
    return poll(&waiting, 1, 10_000) == 1
  }
}
