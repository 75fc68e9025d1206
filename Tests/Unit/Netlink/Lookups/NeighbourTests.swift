import CLinux
import Connectivity
import Glibc
import TestKit
import Testing

@testable import Netlink

/// The neighbours of a real kernel: two namespaces with a veth link between them.
@Suite(
  "Gateways' MAC addresses",
  .enabled(if: NetworkNamespace.isEnabled, "network namespaces: \(NetworkNamespace.obstacle ?? "")")
)
struct NeighbourTests {
  private let near: NetworkNamespace
  private let far: NetworkNamespace
  private let requester: Requester

  private static let first: [UInt8] = [2, 0, 0, 0, 0, 1]
  private static let second: [UInt8] = [2, 0, 0, 0, 0, 2]

  init() throws {
    self.near = try NetworkNamespace()
    self.far = try NetworkNamespace()
    try self.near.ip(
      "link add ve0 index 10 type veth peer name ve1 index 21 netns \(self.far.name)")
    try self.far.ip("link set ve1 address 02:00:00:00:00:01 addrgenmode none up")
    try self.near.ip("link set ve0 addrgenmode none up")
    try self.near.ip("addr add 192.0.2.2/24 dev ve0")
    try self.far.ip("addr add 192.0.2.1/24 dev ve1")
    try self.near.ip("addr add fe80::2/64 dev ve0 nodad")
    try self.far.ip("addr add fe80::1/64 dev ve1 nodad")
    self.requester = try self.near.perform { try Requester() }
  }

  /// The gateway's address in IPv4 and in IPv6.
  static let gateways = ["192.0.2.1", "fe80::1"]

  @Test("I4 a gateway that answered has a MAC address", arguments: Self.gateways)
  func neighbour(text: String) throws {
    let gateway = try address(text)
    #expect(try self.requester.neighbour(gateway, on: 10) == nil)
    let listener = try self.listen(Neighbour(gateway, link: 10))
    try self.send(to: gateway)
    let known = Neighbour(gateway, link: 10, hardwareAddress: Self.first)
    #expect(try self.next(listener) == [known])
    #expect(try self.requester.neighbour(gateway, on: 10) == known)
  }

  @Test("No entry, a link without neighbours, or a missing link → no neighbour")
  func absent() throws {
    #expect(try self.requester.neighbour(address("192.0.2.9"), on: 10) == nil)
    #expect(try self.requester.neighbour(address("fe80::9"), on: 10) == nil)
    for link in [0, 1, 99, .max] as [UInt32] {
      #expect(try self.requester.neighbour(address("192.0.2.1"), on: link) == nil)
      #expect(try self.requester.neighbour(address("fe80::1"), on: link) == nil)
    }
  }

  @Test(
    "I4 an invalid entry has no MAC address",
    arguments: Self.gateways,
    [
      ("reachable", true), ("stale", true), ("delay", true), ("permanent", true), ("noarp", true),
      ("failed", false), ("none", false),
    ])
  func states(text: String, state: (name: String, isValid: Bool)) throws {
    let gateway = try address(text)
    let octets = state.isValid ? "lladdr 02:00:00:00:00:01" : ""
    try self.near.ip("neigh replace \(text) \(octets) dev ve0 nud \(state.name)")
    let found = try #require(try self.requester.neighbour(gateway, on: 10))
    #expect(
      found
        == Neighbour(
          gateway, link: 10, hardwareAddress: state.isValid ? Self.first : nil,
          isFailed: state.name == "failed"))
  }

  @Test(
    "M3 a neighbour has not answered → its entry is deleted; the entry of another stays",
    arguments: Self.gateways)
  func unanswered(text: String) throws {
    let gateway = try address(text)
    for (state, isKept) in [
      ("failed", false), ("reachable", true), ("stale", true), ("permanent", true),
    ] {
      let octets = isKept ? "lladdr 02:00:00:00:00:01" : ""
      try self.near.ip("neigh replace \(text) \(octets) dev ve0 nud \(state)")
      try self.requester.forgetUnanswered(gateway, on: 10)
      let found = try self.requester.neighbour(gateway, on: 10)
      #expect((found?.hardwareAddress != nil) == isKept, "\(state)")
      if !isKept { #expect(found == nil) }
    }
    // Without an entry, and without the link, there is nothing to do.
    try self.near.ip("neigh del \(text) dev ve0")
    try self.requester.forgetUnanswered(gateway, on: 10)
    try self.requester.forgetUnanswered(gateway, on: 4711)
  }

  @Test(
    "I4 D7 the gateway's other MAC address is reported once; going stale and coming back is not",
    arguments: Self.gateways)
  func changed(text: String) throws {
    let gateway = try address(text)
    try self.send(to: gateway)
    try self.near.ip("neigh replace \(text) lladdr 02:00:00:00:00:01 dev ve0 nud reachable")
    let listener = try self.listen(Neighbour(gateway, link: 10, hardwareAddress: Self.first))
    // A listener without a filter shows that there was something to drop.
    let everything = try self.near.perform { try Listener(watching: FilterSpec()) }
    #expect(self.detachFilter(of: everything))
    for state in ["stale", "reachable", "stale", "delay", "reachable"] {
      try self.near.ip("neigh replace \(text) lladdr 02:00:00:00:00:01 dev ve0 nud \(state)")
    }
    // Other neighbours, one of them with the address that would be new for the gateway.
    try self.near.ip("neigh add 192.0.2.8 lladdr 02:00:00:00:00:02 dev ve0 nud reachable")
    try self.near.ip("neigh add fe80::8 lladdr 02:00:00:00:00:02 dev ve0 nud reachable")
    #expect(try self.drain(listener).isEmpty)
    #expect(try self.drain(everything).count >= 7)

    try self.far.ip("link set ve1 address 02:00:00:00:00:02")
    // On deletion the kernel first reports it as failed.
    try self.near.ip("neigh del \(text) dev ve0")
    let failed = Neighbour(gateway, link: 10, isFailed: true)
    #expect(try self.next(listener) == [failed])
    try listener.watch(FilterSpec(gateways: [failed]))
    try self.send(to: gateway)
    let changed = Neighbour(gateway, link: 10, hardwareAddress: Self.second)
    #expect(try self.next(listener) == [changed])
    try listener.watch(FilterSpec(gateways: [changed]))
    for state in ["stale", "reachable"] {
      try self.near.ip("neigh replace \(text) lladdr 02:00:00:00:00:02 dev ve0 nud \(state)")
    }
    #expect(try self.drain(listener).isEmpty)
  }

  @Test(
    "I4 D7 a gateway that stops answering is reported once, and once when it answers again",
    arguments: Self.gateways)
  func failing(text: String) throws {
    let gateway = try address(text)
    for table in ["arp_cache", "ndisc_cache"] {
      try self.near.ip("ntable change name \(table) dev ve0 retrans 10")
    }
    try self.send(to: gateway)
    try self.near.ip("neigh replace \(text) lladdr 02:00:00:00:00:01 dev ve0 nud reachable")
    let known = Neighbour(gateway, link: 10, hardwareAddress: Self.first)
    let listener = try self.listen(known)
    try self.far.ip("addr del \(text)/\(gateway.family == .ipv4 ? 24 : 64) dev ve1")
    // Like a kernel probe without an answer.
    try self.near.ip("neigh change \(text) dev ve0 nud failed")
    let failed = Neighbour(gateway, link: 10, isFailed: true)
    #expect(try self.next(listener) == [failed])
    #expect(try self.requester.neighbour(gateway, on: 10) == failed)

    try listener.watch(FilterSpec(gateways: [failed]))
    // A listener that does not know the gateway receives each failure.
    let stranger = try self.listen(known)
    for _ in 0..<2 {
      try self.send(to: gateway)
      #expect(try self.next(stranger) == [failed])
    }
    #expect(try self.drain(listener).isEmpty)

    try self.far.ip(
      "addr add \(text)/\(gateway.family == .ipv4 ? 24 : 64) dev ve1\(gateway.family == .ipv4 ? "" : " nodad")"
    )
    // The far kernel adds an IPv6 address later, and the near one asks for a short time only.
    var told: [Neighbour] = []
    var waiting = pollfd(fd: listener.fileDescriptor, events: Int16(POLLIN), revents: 0)
    for _ in 0..<200 where told.isEmpty {
      try self.send(to: gateway)
      if poll(&waiting, 1, 100) == 1 { told = try self.drain(listener) }
    }
    #expect(told == [known])
    #expect(try self.requester.neighbour(gateway, on: 10) == known)
  }

  private func listen(_ gateway: Neighbour) throws -> Listener {
    try self.near.perform { try Listener(watching: FilterSpec(gateways: [gateway])) }
  }

  private func detachFilter(of listener: Listener) -> Bool {
    var nothing: CInt = 0
    return setsockopt(
      listener.fileDescriptor, SOL_SOCKET, SO_DETACH_FILTER, &nothing,
      socklen_t(MemoryLayout<CInt>.size)) == 0
  }

  /// The reported neighbours. (Messages about addresses may come late.)
  private func drain(_ listener: Listener) throws -> [Neighbour] {
    var events: [KernelEvent] = []
    while try listener.drain(into: &events, limit: 100) {}
    return events.compactMap { if case .neighbour(let neighbour) = $0 { neighbour } else { nil } }
  }

  /// Waits for the next report about neighbours.
  private func next(_ listener: Listener) throws -> [Neighbour] {
    var waiting = pollfd(fd: listener.fileDescriptor, events: Int16(POLLIN), revents: 0)
    while poll(&waiting, 1, 20_000) == 1 {
      let neighbours = try self.drain(listener)
      if !neighbours.isEmpty { return neighbours }
    }
    return []
  }

  /// Makes the near kernel resolve the neighbour's MAC address.
  private func send(to neighbour: IPAddress) throws {
    let result = try self.near.perform { () -> Int in
      let family = neighbour.family == .ipv4 ? AF_INET : AF_INET6
      let socket = socket(family, Int32(SOCK_DGRAM.rawValue), 0)
      defer { close(socket) }
      return withSocketAddress(neighbour, 9, scope: 10) { sendto(socket, [0], 1, 0, $0, $1) }
    }
    #expect(result == 1)
  }
}
