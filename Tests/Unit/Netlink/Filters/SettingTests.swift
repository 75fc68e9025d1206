import CLinux
import Connectivity
import Glibc
import TestKit
import Testing

@testable import Netlink

@Suite("Settings that lookups depend on")
struct SettingTests {
  @Test("the filter passes only the sysctl that lookups depend on, and not a new link's list")
  func filter() {
    let filter = BPFInterpreter()
    for family in [AF_INET, AF_INET6] {
      let one = Self.message(family, [NETCONFA_IFINDEX, NETCONFA_IGNORE_ROUTES_WITH_LINKDOWN])
      #expect(filter.run(on: one) == .max)
      #expect(
        Capture(bytes: one).events == [.setting(family == AF_INET ? .ipv4 : .ipv6)])
      for others in [
        [NETCONFA_IFINDEX, NETCONFA_FORWARDING], [NETCONFA_IFINDEX, NETCONFA_RP_FILTER],
        [NETCONFA_IFINDEX],
        [NETCONFA_IFINDEX, NETCONFA_FORWARDING, NETCONFA_IGNORE_ROUTES_WITH_LINKDOWN],
      ] { #expect(filter.run(on: Self.message(family, others)) == 0) }
    }
    let removed = Self.message(AF_INET, [NETCONFA_IFINDEX], type: Int(RTM_DELNETCONF))
    #expect(filter.run(on: removed) == 0)
    #expect(Capture(bytes: removed).events.isEmpty)
    let empty = Capture(bytes: MessageBuilder(type: Int(RTM_NEWNETCONF), header: []).bytes)
    guard case .malformed? = empty.events.first else {
      Issue.record("\(empty.events)")
      return
    }
  }

  private static func message<Number: BinaryInteger>(
    _ family: CInt, _ attributes: [Number], type: Int = Int(RTM_NEWNETCONF)
  ) -> [UInt8] {
    var message = MessageBuilder(type: type, header: [UInt8(family), 0, 0, 0])
    for attribute in attributes { message.put(Int(attribute), raw(UInt32(1))) }
    return message.bytes
  }

  @Test(
    "The kernel reports ignore_routes_with_linkdown, and no other changed setting",
    .enabled(
      if: NetworkNamespace.isEnabled, "network namespaces: \(NetworkNamespace.obstacle ?? "")"),
    arguments: [AddressFamily.ipv4, .ipv6])
  func told(family: AddressFamily) throws {
    let namespace = try NetworkNamespace()
    try namespace.ip("link add ve0 index 10 type veth peer name ve1 index 21")
    let listener = try namespace.perform { try Listener(watching: FilterSpec()) }
    func events(_ setting: String) throws -> [KernelEvent] {
      try namespace.run("sysctl", "-qw", "net.\(family).conf.\(setting)")
      return try self.drain(listener)
    }
    #expect(try events("ve0.ignore_routes_with_linkdown=1") == [.setting(family)])
    #expect(try events("ve0.ignore_routes_with_linkdown=1").isEmpty)
    #expect(try events("ve0.ignore_routes_with_linkdown=0") == [.setting(family)])
    // IPv6 then sets it for each link, and reports each.
    let all = try events("all.ignore_routes_with_linkdown=1")
    #expect(!all.isEmpty && all.allSatisfy { $0 == .setting(family) })
    #expect(try events("ve0.forwarding=1").isEmpty)
    #expect(try events("all.forwarding=1").isEmpty)
    try namespace.ip("link add ve2 index 30 type veth peer name ve3 index 41")
    try namespace.ip("link set ve2 up")
    try namespace.ip("link del ve2")
    #expect(try self.drain(listener).isEmpty)
  }

  /// The events, without links, addresses and routes.
  private func drain(_ listener: Listener) throws -> [KernelEvent] {
    var events: [KernelEvent] = []
    while try listener.drain(into: &events, limit: 100) {}
    return events.filter { event in
      switch event {
      case .link, .linkRemoved, .address, .addressRemoved, .route, .routeRemoved: false
      default: true
      }
    }
  }
}
