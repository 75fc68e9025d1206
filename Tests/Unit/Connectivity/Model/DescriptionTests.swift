import Connectivity
import Testing

@Suite("Descriptions")
struct DescriptionTests {
  private static let wifi = KernelPath(
    status: .satisfied,
    chain: [KernelPath.Link(index: 5, name: "vlan10"), KernelPath.Link(index: 3, name: "wlan0")],
    medium: .wifi,
    evidence: KernelPath.Evidence(.phy80211, "phy0", .wifi), source: "192.0.2.7",
    sourcePrefixLength: 24, gateway: "192.0.2.1", table: 254, isExpensive: true)
  private static let noCarrier = KernelPath(
    status: .requiresConnection, reason: .noCarrier,
    chain: [KernelPath.Link(index: 2, name: "eth0")],
    medium: .wired)
  private static let carrierLost = ChangeCause(
    .link, "carrierLost", message: "RTM_NEWLINK", interface: "eth0")
  private static let status = ConnectivityStatus(
    ipv4: Self.wifi, ipv6: .unsatisfied(.noRoute), preferred: .ipv4)
  private static let snapshot = ConnectivitySnapshot(
    generation: 17, since: WallTime(microseconds: 0), status: Self.status)

  @Test(
    "T5 a value of the model is printed → the text is one readable line",
    arguments: [
      (
        Self.wifi,
        "satisfied, wifi by vlan10 over wlan0 from 192.0.2.7 via 192.0.2.1, expensive"
      ),
      (Self.noCarrier, "requires connection: eth0 has no carrier"),
      (KernelPath.unsatisfied(.noRoute), "unsatisfied: no route"),
      (KernelPath.unknown, "unknown: the kernel cannot be queried"),
      (Self.carrierLost, "carrier lost on eth0 (RTM_NEWLINK)"),
      (
        InvalidationError(
          reason: .interfaceLost, severity: .destroy, cause: Self.carrierLost, path: Self.noCarrier,
          socket: SocketTestimony(
            lastHeard: .milliseconds(-12), roundTrip: .milliseconds(3), timeouts: 1,
            hasUnacknowledgedData: true)),
        "destroy, interface lost: carrier lost on eth0 (RTM_NEWLINK); "
          + "last heard 12 ms before the change, 1 timeout in a row; "
          + "now requires connection: eth0 has no carrier"
      ),
      (
        InvalidationError(
          reason: .policy, severity: .destroy, cause: ChangeCause(.user, "expensiveSet"), path: nil,
          networkUnavailableReason: .expensive),
        "destroy, policy (expensive): expensive set"
      ),
      (
        ConnectivityChange.invalidation(
          Invalidation(
            generation: 4, reason: .interfaceLost, severity: .destroy,
            scope: .init(
              interface: "eth0", family: .ipv4, localAddresses: ["192.0.2.7"],
              destination: .offLink),
            cause: Self.carrierLost, time: WallTime(microseconds: 0))),
        "destroy channels by a gateway from 192.0.2.7 on eth0 (ipv4), "
          + "interface lost: carrier lost on eth0 (RTM_NEWLINK)"
      ),
      (Invalidation.Scope.everything, "all channels"),
      (
        Self.snapshot,
        "17: wifi, ipv4 satisfied, wifi by vlan10 over wlan0 from 192.0.2.7 via 192.0.2.1, "
          + "expensive, ipv6 unsatisfied: no route"
      ),
      (
        ConnectivityChange.transition(
          ConnectivityChange.Transition(
            from: .wired, to: .offline, bounced: false, cause: Self.carrierLost,
            time: WallTime(microseconds: 0), snapshot: Self.snapshot)),
        "wired → none: carrier lost on eth0 (RTM_NEWLINK)"
      ),
      (
        NetworkUnavailableError(reason: .expensive, path: Self.wifi),
        "the path over vlan10 is metered, which is forbidden"
      ),
    ] as [(any CustomStringConvertible & Sendable, String)])
  func line(value: any CustomStringConvertible & Sendable, text: String) {
    #expect("\(value)" == text)
  }

  @Test("a link's name contains a line break → the description is still one line")
  func escaped() {
    let path = KernelPath(
      status: .satisfied, chain: [KernelPath.Link(index: 1, name: "a\nb")], medium: .wired)
    #expect("\(path)" == "satisfied, wired by a\\nb")
  }
}
