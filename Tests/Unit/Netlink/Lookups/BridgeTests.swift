import CLinux
import Connectivity
import Glibc
import TestKit
import Testing

@testable import Netlink

/// The entries of a real bridge with two ports, and a namespace behind each.
@Suite(
  "A bridge's ports",
  .enabled(if: NetworkNamespace.isEnabled, "network namespaces: \(NetworkNamespace.obstacle ?? "")")
)
struct BridgeTests {
  private let near: NetworkNamespace
  private let first: NetworkNamespace
  private let second: NetworkNamespace
  private let requester: Requester

  private static let bridge: UInt32 = 12
  private static let ports: [UInt32] = [10, 30]
  private static let host: [UInt8] = [2, 0, 0, 0, 0, 9]

  init() throws {
    self.near = try NetworkNamespace()
    self.first = try NetworkNamespace()
    self.second = try NetworkNamespace()
    try self.near.ip("link add br0 index 12 address 02:00:00:00:00:0b type bridge")
    try self.near.ip("link set br0 addrgenmode none up")
    for (port, far) in zip(Self.ports, [self.first, self.second]) {
      try self.near.ip(
        "link add ve\(port) index \(port) type veth peer name far index \(port + 11) netns \(far.name)"
      )
      try self.near.ip("link set ve\(port) master br0 addrgenmode none up")
      try far.ip("link set far address 02:00:00:00:00:09 addrgenmode none up")
      try far.ip("addr add 192.0.2.9/24 dev far")
    }
    self.requester = try self.near.perform { try Requester() }
  }

  @Test("I4 a MAC address belongs to the port it was last received on")
  func move() throws {
    #expect(try self.port() == nil)
    let listener = try self.listen([Self.host])
    let others = try self.listen([[2, 0, 0, 0, 0, 8]])
    let nobody = try self.listen([])
    for (port, far) in [
      (Self.ports[0], self.first), (Self.ports[1], self.second), (Self.ports[0], self.first),
    ] {
      #expect(
        try self.speak(far, to: listener) == [
          .bridgeEntry(BridgeEntry(Self.host, port: port, bridge: Self.bridge))
        ])
      #expect(try self.port() == port)
      // It is where it was.
      try self.speak(far)
      #expect(try self.drain(listener).isEmpty)
    }
    try self.near.ip("link set ve10 nomaster")
    #expect(try self.port() == nil)
    for listener in [others, nobody] { #expect(try self.drain(listener).isEmpty) }
  }

  @Test("An unknown entry, the bridge's own address, no bridge, no link, no MAC address → no port")
  func absent() throws {
    let listener = try self.listen([Self.host])
    #expect(try self.speak(self.first, to: listener).count == 1)
    #expect(try self.requester.bridgePort(of: [2, 0, 0, 0, 0, 8], on: Self.bridge) == nil)
    #expect(try self.requester.bridgePort(of: [2, 0, 0, 0, 0, 0xB], on: Self.bridge) == nil)
    for link in [0, 1, 10, 99, .max] as [UInt32] {
      #expect(try self.requester.bridgePort(of: Self.host, on: link) == nil)
    }
    for octets in [[], [2], Array(repeating: 2, count: 20)] as [[UInt8]] {
      #expect(try self.requester.bridgePort(of: octets, on: Self.bridge) == nil)
    }
    #expect(try self.port() == Self.ports[0])
  }

  private func port() throws -> UInt32? {
    try self.requester.bridgePort(of: Self.host, on: Self.bridge)
  }

  private func listen(_ bridged: [[UInt8]]) throws -> Listener {
    try self.near.perform { try Listener(watching: FilterSpec(bridged: bridged)) }
  }

  /// The messages about bridges.
  private func drain(_ listener: Listener) throws -> [KernelEvent] {
    var events: [KernelEvent] = []
    while try listener.drain(into: &events, limit: 100) {}
    return events.filter { if case .bridgeEntry = $0 { true } else { false } }
  }

  /// The host sends until the listener receives the entry: a port forwards only after the kernel
  /// has processed its carrier.
  private func speak(_ far: NetworkNamespace, to listener: Listener) throws -> [KernelEvent] {
    var waiting = pollfd(fd: listener.fileDescriptor, events: Int16(POLLIN), revents: 0)
    for _ in 0..<200 {
      try self.speak(far)
      guard poll(&waiting, 1, 100) == 1 else { continue }
      let events = try self.drain(listener)
      if !events.isEmpty { return events }
    }
    return []
  }

  /// The host sends a broadcast.
  private func speak(_ far: NetworkNamespace) throws {
    let everybody = try address("192.0.2.255")
    let sent = try far.perform { () -> Int in
      let socket = socket(AF_INET, Int32(SOCK_DGRAM.rawValue), 0)
      defer { close(socket) }
      var allowed: CInt = 1
      let size = socklen_t(MemoryLayout<CInt>.size)
      guard setsockopt(socket, SOL_SOCKET, SO_BROADCAST, &allowed, size) == 0 else { return -1 }
      return withSocketAddress(everybody, 9) { sendto(socket, [0], 1, 0, $0, $1) }
    }
    #expect(sent == 1)
  }
}
