import CLinux
import Connectivity
import Glibc
import TestKit
import Testing

@testable import Netlink

/// Lookups with a connection's own protocol and ports.
@Suite(
  "Lookups for one connection",
  .enabled(if: NetworkNamespace.isEnabled, "network namespaces: \(NetworkNamespace.obstacle ?? "")")
)
struct TransportTests {
  private let namespace: NetworkNamespace
  private let requester: Requester

  private static let tcp = UInt8(IPPROTO_TCP)
  private static let udp = UInt8(IPPROTO_UDP)

  init() throws {
    self.namespace = try NetworkNamespace()
    for words in [
      "link add ve0 index 10 type veth peer name ve1 index 21",
      "link set ve0 up", "link set ve1 up",
      "addr add 192.0.2.2/24 dev ve0", "addr add 2001:db8::2/64 dev ve0 nodad",
      "route add default via 192.0.2.1", "-6 route add default via 2001:db8::1",
      "route add default via 192.0.2.9 table 100", "-6 route add default via 2001:db8::9 table 100",
    ] { try self.namespace.ip(words) }
    self.requester = try self.namespace.perform { try Requester() }
  }

  private func table(_ family: AddressFamily, _ transport: Transport?) throws -> UInt32? {
    let remote = try address(family == .ipv4 ? "8.8.8.8" : "2001:4860::8")
    let destination = Destination(remote, transport: transport)
    guard case .route(let route) = try self.requester.route(to: destination) else { return nil }
    #expect(try self.requester.routes(to: [destination]) == [.route(route)])
    #expect(try self.requester.match(for: destination)?.route?.table == route.table)
    return route.table
  }

  private func addRule(_ family: AddressFamily, _ words: String) throws {
    try self.namespace.ip("\(family == .ipv4 ? "-4" : "-6") rule add \(words) lookup 100")
  }

  @Test("I3 a rule for a protocol and a port applies", arguments: [AddressFamily.ipv4, .ipv6])
  func remotePort(family: AddressFamily) throws {
    try self.addRule(family, "ipproto tcp dport 443")
    #expect(try self.table(family, Transport(Self.tcp, localPort: 40_000, remotePort: 443)) == 100)
    #expect(try self.table(family, Transport(Self.tcp, remotePort: 443)) == 100)
    #expect(try self.table(family, Transport(Self.tcp, remotePort: 444)) == 254)
    #expect(try self.table(family, Transport(Self.tcp, localPort: 443)) == 254)
    #expect(try self.table(family, Transport(Self.udp, remotePort: 443)) == 254)
    #expect(try self.table(family, nil) == 254)
  }

  @Test("I3 rules for port ranges apply", arguments: [AddressFamily.ipv4, .ipv6])
  func ranges(family: AddressFamily) throws {
    try self.addRule(family, "ipproto udp sport 1000-2000")
    for (port, table) in [(999, 254), (1000, 100), (2000, 100), (2001, 254)] as [(UInt16, UInt32)] {
      #expect(try self.table(family, Transport(Self.udp, localPort: port)) == table, "\(port)")
      #expect(try self.table(family, Transport(Self.tcp, localPort: port)) == 254, "\(port)")
    }
    try self.addRule(family, "dport 511-767")
    for (port, table) in [(510, 254), (511, 100), (767, 100), (768, 254)] as [(UInt16, UInt32)] {
      #expect(try self.table(family, Transport(Self.tcp, remotePort: port)) == table, "\(port)")
    }
  }

  @Test(
    "I3 protocols that a lookup cannot name → their rules do not count",
    arguments: [AddressFamily.ipv4, .ipv6])
  func otherProtocols(family: AddressFamily) throws {
    try self.addRule(family, "ipproto sctp")
    try self.addRule(family, "dport 443")
    let icmp = UInt8(family == .ipv4 ? IPPROTO_ICMP : Int(IPPROTO_ICMPV6))
    let foreign = UInt8(family == .ipv4 ? Int(IPPROTO_ICMPV6) : IPPROTO_ICMP)
    for number in [UInt8(IPPROTO_SCTP), icmp, foreign, 0, .max] {
      #expect(try self.table(family, Transport(number, remotePort: 443)) == 254, "\(number)")
    }
    try self.addRule(family, "ipproto \(icmp)")
    #expect(try self.table(family, Transport(icmp, localPort: 7, remotePort: 9)) == 100)
    #expect(try self.table(family, Transport(foreign)) == 254)
  }
}
