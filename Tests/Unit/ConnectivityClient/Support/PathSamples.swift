import Connectivity
import ConnectivityProtocol

extension Connectivity_V1_WatchResponse {
  static func snapshot(_ generation: UInt64, _ status: ConnectivityStatus) -> Self {
    .snapshot(PathSample.snapshot(generation, status))
  }

  static func transition(
    _ generation: UInt64, from: NetworkCategory, to status: ConnectivityStatus,
    bounced: Bool = false
  ) -> Self {
    Self(.transition(PathSample.transition(generation, from: from, to: status, bounced: bounced)))
  }

  static func path(_ generation: UInt64, _ status: ConnectivityStatus) -> Self {
    Self(.path(PathSample.change(generation, status)))
  }

  static func servers(_ generation: UInt64, _ servers: String...) -> Self {
    let settings = DNSSettings(servers: servers.compactMap { DNSSettings.Server($0) })
    return Self(
      .dns(
        ConnectivityChange.DNSChange(
          generation: generation, settings: settings, cause: ChangeCause(.dns, "serversChanged"),
          time: WallTime(microseconds: 0))))
  }
}

extension Connectivity_V1_WatchPathResponse {
  init(_ path: KernelPath) {
    self.init()
    self.path = Connectivity_V1_Path(path)
  }
}

/// Paths, and statuses with them.
enum PathSample {
  static let wifi = KernelPath(
    status: .satisfied, chain: [KernelPath.Link(index: 3, name: "wlan0")], medium: .wifi,
    evidence: KernelPath.Evidence(.phy80211, "phy0", .wifi), source: IPAddress("192.0.2.7"),
    sourcePrefixLength: 24, gateway: IPAddress("192.0.2.1"), table: 254)
  static let wifi6 = KernelPath(
    status: .satisfied, chain: [KernelPath.Link(index: 3, name: "wlan0")], medium: .wifi,
    source: IPAddress("2001:db8::7"), sourcePrefixLength: 64, gateway: IPAddress("fe80::1"),
    table: 254)
  static let cellular = KernelPath(
    status: .satisfied, chain: [KernelPath.Link(index: 4, name: "wwan0")], medium: .cellular,
    source: IPAddress("198.51.100.20"), table: 254, isExpensive: true)
  static let noCarrier = KernelPath(
    status: .requiresConnection, reason: .noCarrier, chain: Self.wifi.chain, medium: .wifi,
    source: IPAddress("192.0.2.7"), gateway: IPAddress("192.0.2.1"), table: 254)
  static let none = KernelPath.unsatisfied(.noRoute)

  static func status(_ ipv4: KernelPath, _ ipv6: KernelPath = Self.none) -> ConnectivityStatus {
    ConnectivityStatus(ipv4: ipv4, ipv6: ipv6, preferred: .ipv4)
  }

  /// - Parameter since: In seconds.
  static func snapshot(_ generation: UInt64, _ status: ConnectivityStatus, since: Int64 = 0)
    -> ConnectivitySnapshot
  {
    ConnectivitySnapshot(
      generation: generation, since: WallTime(microseconds: since * 1_000_000), status: status)
  }

  static func transition(
    _ generation: UInt64, from: NetworkCategory, to status: ConnectivityStatus,
    bounced: Bool = false,
    since: Int64 = 0
  ) -> ConnectivityChange.Transition {
    let snapshot = Self.snapshot(generation, status, since: since)
    return ConnectivityChange.Transition(
      from: from, to: status.category, bounced: bounced, cause: ChangeCause(.link, "carrierLost"),
      time: snapshot.since, snapshot: snapshot)
  }

  static func change(_ generation: UInt64, _ status: ConnectivityStatus)
    -> ConnectivityChange.PathChange
  {
    let snapshot = Self.snapshot(generation, status)
    return ConnectivityChange.PathChange(
      cause: ChangeCause(.address, "addressAdded"), time: snapshot.since, snapshot: snapshot)
  }
}
