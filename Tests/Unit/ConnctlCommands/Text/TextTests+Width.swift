import Connectivity
import ConnectivityMonitor
import ConnectivityProtocol
import Testing

@testable import ConnctlCommands

/// The width of lines.
extension TextTests {
  @Test("no line is wider than 80 columns, with the longest values")
  func width() throws {
    var path = KernelPath.stack
    path.chain = (0..<4).map { KernelPath.Link(index: $0, name: "abcdefghijklmn\($0)") }
    path.source = IPAddress("2001:db8:1111:2222:3333:4444:5555:6666")
    path.gateway = IPAddress("fe80:1111:2222:3333:4444:5555:6666:7777")
    path.status = .requiresConnection
    path.reason = .noSourceAddress
    path.constraint = .constrained
    let status = ConnectivityStatus(ipv4: path, ipv6: path, preferred: .ipv4)
    let transition = ConnectivityChange.Transition(
      from: .cellular, to: .cellular, bounced: true,
      cause: ChangeCause(
        .nexthop, "sourceAddressRemoved", message: "RTM_DELNEXTHOP", interface: "abcdefghijklmn0",
        learntLate: true), time: .sample, snapshot: .sample(1, status))
    var link = Connectivity_V1_Link.wlan
    link.name = "abcdefghijklmno"
    link.medium = .bluetooth
    link.state = .noCarrier
    link.addresses = ["2001:db8:1111:2222:3333:4444:5555:6666/128"]
    let change = ConnectivityChange.PathChange(
      cause: transition.cause, time: .sample, snapshot: .sample(1, status))
    let invalidation = Invalidation(
      generation: 1, reason: .sourceAddressLost, severity: .destroy,
      scope: .init(
        interface: "abcdefghijklmn0", family: .ipv6,
        localAddresses: Array(repeating: path.source, count: 3).compactMap { $0 },
        destination: path.source.map { .address($0) }), cause: transition.cause, time: .sample)
    let flow = InvalidationError(
      reason: .sourceAddressLost, severity: .destroy, cause: transition.cause, path: path)
    let remote = try #require(path.source)
    let lines =
      self.style.status(.sample(1, status), now: .sample)
      + self.style.path(path, to: "2001:db8:1111:2222:3333:4444:5555:6666")
      + self.style.event(.change(.transition(transition)), now: .sample)
      + self.style.event(.change(.path(change)), now: .sample)
      + self.style.history([.transition(transition)]) + self.style.links([link])
      + self.style.event(.change(.invalidation(invalidation)), now: .sample)
      + self.style.history([.invalidation(invalidation)])
      + self.style.flow(.path(path), destination: remote, now: .sample)
      + self.style.flow(.invalidation(flow), destination: remote, now: .sample)
    for line in lines { #expect(line.count <= 80, "\(line)") }
  }

  @Test("if standard output is not a terminal, a change is one line of any length")
  func unbroken() throws {
    let style = Style.plain(width: .max)
    let remote = try #require(IPAddress("192.0.2.80"))
    expectLines(
      style.event(.change(.path(.sample)), now: .sample)
        + style.history([.invalidation(.sample)])
        + style.flow(.invalidation(.sample), destination: remote, now: .sample)
        + style.status(
          .sample(
            1, ConnectivityStatus(ipv4: .unsatisfied(.noRoute), ipv6: .stack, preferred: .ipv4)),
          now: .sample
        ).suffix(1) + style.links([.wlan]).suffix(1),
      """
      01:25:00.123  path              ipv4 wlan0 from 192.0.2.7, ipv6 none: address added on wlan0 (RTM_NEWADDR)
      2026-11-21 01:25:00.123  to end            connections on wlan0 (ipv4): interface lost; carrier lost on wlan0
      01:25:00.123  to end            interface lost: carrier lost on wlan0 (RTM_NEWLINK); now unsatisfied: no route
        ipv6  satisfied  vlan10  over bond0 over eth0 from 2001:db8:1111:2222:3333:4444:5555:6666 via fe80::1234:5678:9abc:def0
      wlan0  wifi    up     ipv4 ipv6  192.0.2.7/24 2001:db8:1111:2222:3333:4444:5555:6666/64 metered "Free \\xe9?Wi-Fi" -52 dBm
      """)
  }
}
