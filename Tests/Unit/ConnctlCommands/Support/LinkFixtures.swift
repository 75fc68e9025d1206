import Connectivity
import ConnectivityProtocol

extension Connectivity_V1_Link {
  static let wlan: Self = {
    var link = Self()
    link.index = 3
    link.name = "wlan0"
    link.medium = .wifi
    link.evidence = Connectivity_V1_Evidence(KernelPath.Evidence(.phy80211, "phy0", .wifi))
    link.state = .up
    link.expensive = true
    link.addresses = ["192.0.2.7/24", "2001:db8:1111:2222:3333:4444:5555:6666/64"]
    link.defaultIpv4 = true
    link.defaultIpv6 = true
    link.hardwareType = 1
    link.mtu = 1500
    link.wireless.role = .station
    link.wireless.ssid = "Free \\xe9\u{1B}Wi-Fi"
    link.wireless.security = [.personal, .enterprise]
    link.wireless.bssid = "02:00:00:00:01:00"
    link.wireless.frequency = 2437
    link.wireless.signal = -52
    link.wireless.transmitRate = 54_000_000
    link.wireless.metered = true
    return link
  }()

  static let ppp: Self = {
    var link = Self.stacked("ppp0", kind: "ppp")
    link.medium = .cellular
    link.modem.connected = true
    link.modem.suspended = true
    link.modem.technology = .mobileTechnology4G
    link.modem.roaming = true
    link.modem.signalQuality = 67
    return link
  }()

  static let docker: Self = {
    var link = Self()
    link.index = 5
    link.name = "docker0"
    link.kind = "bridge"
    link.medium = .unknown
    link.state = .noCarrier
    link.addresses = ["172.17.0.1/16"]
    link.master = "br0"
    link.lower = "eth0"
    link.hardwareType = 1
    return link
  }()

  static let usb: Self = {
    var link = Self.stacked("usb0")
    link.via = .phone
    link.viaGuessed = true
    return link
  }()

  static func stacked(_ name: String, kind: String? = nil) -> Self {
    var link = Self()
    link.name = name
    if let kind { link.kind = kind }
    link.medium = .wired
    link.state = .up
    link.hardwareType = 1
    return link
  }
}

extension Connectivity_V1_Explanation {
  static let sample: Self = {
    var explanation = Self()
    explanation.destination = "1.1.1.1"
    explanation.path = Connectivity_V1_Path(.stack)
    var rule = Connectivity_V1_Rule()
    rule.priority = 32766
    rule.table = 254
    rule.selector = "from all"
    explanation.rules = [rule]
    explanation.routePrefix = "0.0.0.0/0"
    explanation.routePriority = 600
    explanation.links = [
      .stacked("vlan10", kind: "vlan"), .stacked("bond0", kind: "bond"), .stacked("eth0"),
    ]
    explanation.flags.reachable = true
    explanation.category = .wired
    var probe = Connectivity_V1_Probe()
    probe.destination = "1.1.1.1"
    probe.answer = "vlan10 via 192.0.2.1"
    probe.agrees = true
    explanation.probes = [probe]
    probe.destination = "9.9.9.9"
    probe.answer = "noRoute"
    probe.agrees = false
    explanation.probes.append(probe)
    return explanation
  }()
}

extension Connectivity_V1_UnusedLink {
  /// A cable whose route has a higher metric than the sample's.
  static let slower: Self = {
    var unused = Self()
    unused.link = .stacked("eth1")
    unused.reason = .higherMetric
    (unused.routePrefix, unused.routePriority, unused.routeTable) = ("0.0.0.0/0", 700, 254)
    unused.gateway = "192.0.2.1"
    unused.rule.priority = 32766
    return unused
  }()
}

extension Connectivity_V1_Connection {
  /// A dead connection.
  static let sample: Self = {
    var connection = Self()
    (connection.local, connection.localPort) = ("192.0.2.7", 42912)
    (connection.remote, connection.remotePort) = ("203.0.113.9", 22)
    (connection.user, connection.socketInode) = (1000, 77)
    connection.path = Connectivity_V1_Path(.wlan)
    (connection.interface, connection.interfaceState) = ("eth0", .noCarrier)
    (connection.reason, connection.severity) = (.interfaceLost, .destroy)
    connection.socket = Connectivity_V1_SocketTestimony(
      SocketTestimony(
        lastHeard: .seconds(-12), roundTrip: .zero, timeouts: 5, hasUnacknowledgedData: true))
    (connection.tcpState, connection.accepted) = (.established, true)
    (connection.socketCookie, connection.controlGroup) = (4097, 2461)
    return connection
  }()

  static let alive: Self = {
    var connection = Self()
    (connection.local, connection.localPort) = ("192.0.2.7", 38000)
    (connection.remote, connection.remotePort) = ("198.51.100.7", 443)
    (connection.user, connection.socketInode) = (0, 78)
    connection.path = Connectivity_V1_Path(.wlan)
    (connection.interface, connection.interfaceState) = ("wlan0", .up)
    return connection
  }()
}
