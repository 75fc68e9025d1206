import Connectivity
import ModelRoutes

/// A link of the model kernel, with everything on it and at its other end.
struct ModelLink: Hashable {
  enum Sort: Hashable {
    case loopback, wired, wifi, cellular, vlan, tunnel, container, bridge, bond
  }

  var index: UInt32
  var name: String
  var sort: Sort
  var isUp = true
  var hasCarrier = true
  var isDormant = false
  /// How often it has lost its carrier.
  var downCount: UInt32 = 0
  /// The bridge or bond that it is a port of.
  var master: UInt32?
  /// For a bridge: the ports behind which it has learnt MAC addresses.
  var learnt: [[UInt8]: UInt32] = [:]
  /// The link below a vlan.
  var lower: UInt32?
  /// The remote end of a tunnel.
  var remote: IPAddress?
  var addresses: [Address] = []
  /// The network that the link is plugged into, or has joined.
  var network: UInt8 = 0
  /// The MAC addresses of its routers that the kernel knows.
  var neighbours: [IPAddress: [UInt8]] = [:]

  /// Whether its neighbours have MAC addresses, which they do not on modems and tunnels.
  var hasNeighbours: Bool {
    [.wired, .wifi, .vlan, .bridge, .bond].contains(self.sort)
  }

  /// The metric of the link's default routes: the lowest wins.
  var metric: UInt32 {
    switch self.sort {
    case .vlan: 90
    case .bridge, .bond: 80
    case .wired: 100
    case .wifi: 600
    case .cellular: 700
    case .loopback, .tunnel, .container: 50
    }
  }
}

/// The whole state of the model kernel at one moment. Each change returns the kernel's messages
/// about it. These do not cover everything: IPv4's routes are removed silently with their link or
/// their last address.
struct ModelNetwork: Hashable {
  var links: [ModelLink] = []
  var routes: [ModelRoute] = []
  var rules: [ModelRule] = []
  /// A block that is local as a whole (`ip route add local … dev lo`).
  var local: IPPrefix?
  var lastIndex: UInt32 = 9

  /// The other end of the cable.
  enum Machine: Hashable {
    case laptop
    /// A bridge, beside a guest.
    case host
    /// A bond of two cables, of which one carries all traffic.
    case server
  }

  /// A machine with a cable, Wi-Fi and a modem, all of them working.
  init(_ machine: Machine = .laptop) {
    self.links = [
      ModelLink(
        index: 1, name: "lo", sort: .loopback,
        addresses: [Address(.bytes([127, 0, 0, 1]), prefixLength: 8, link: 1)]),
      ModelLink(index: 2, name: "eth0", sort: .wired, network: 6),
      ModelLink(index: 3, name: "wlan0", sort: .wifi, network: 2),
      ModelLink(index: 4, name: "wwan0", sort: .cellular, network: 20),
    ]
    switch machine {
    case .laptop: break
    case .host:
      self.links += [
        ModelLink(index: 5, name: "br0", sort: .bridge, network: 6),
        ModelLink(index: 6, name: "tap0", sort: .container, master: 5),
      ]
      self.links[1].master = 5
    case .server:
      self.links += [
        ModelLink(index: 5, name: "bond0", sort: .bond, network: 6),
        ModelLink(index: 6, name: "eth1", sort: .wired, master: 5, network: 6),
      ]
      self.links[1].master = 5
    }
    for name in ["eth0", "wlan0", "wwan0"] { _ = self.repair(name) }
  }

  func place(_ index: UInt32?) -> Int? { self.links.firstIndex { $0.index == index } }
  subscript(index: UInt32?) -> ModelLink? { self.place(index).map { self.links[$0] } }
  func named(_ name: String) -> ModelLink? { self.links.first { $0.name == name } }

  /// The kernel's description of a link.
  func link(_ index: UInt32?) -> Link? {
    guard let link = self[index] else { return nil }
    let carrier = link.isUp && self.carries(link)
    var flags: LinkFlags = link.isUp ? [.up] : []
    if carrier { flags.formUnion(link.isDormant ? [.lowerUp, .dormant] : [.lowerUp, .running]) }
    let state: OperationalState =
      !carrier ? (link.hasCarrier ? .lowerLayerDown : .down) : link.isDormant ? .dormant : .up
    var told = Link(
      index: link.index, name: link.name, flags: flags,
      operationalState: link.sort == .tunnel && carrier ? .unknown : state, carrier: carrier,
      lower: link.lower, master: link.master, outer: link.remote.map { Destination($0) })
    told.carrierDownCount = link.downCount
    if link.hasNeighbours {
      told.hardwareAddress = [2, 0, 0, 1, 0, UInt8(truncatingIfNeeded: index ?? 0)]
    }
    switch link.sort {
    case .loopback:
      told.flags.insert(.loopback)
      told.hardwareType = 772
    case .cellular:
      told.flags.insert(.pointToPoint)
      told.hardwareType = 65534
    case .vlan: told.kind = "vlan"
    case .tunnel:
      told.kind = "gre"
      told.hardwareType = 778
    case .container: told.kind = "veth"
    case .bridge: told.kind = "bridge"
    case .bond:
      told.kind = "bond"
      told.activePort = self.activePort(of: link.index)?.index
    case .wired, .wifi: break
    }
    return told
  }

  func device(_ index: UInt32) -> Device {
    switch self[index]?.sort {
    case .wifi: Device(type: "wlan")
    case .cellular: Device(type: "wwan")
    case .bridge, .bond:
      Device(
        type: self[index]?.sort == .bond ? "bond" : "bridge",
        lowerLinks: self.ports(of: index).map(\.index))
    default: .unknown
    }
  }

  func has(_ address: IPAddress, on link: UInt32?) -> Bool {
    self[link]?.addresses.contains { $0.address == address } ?? false
  }

  func ports(of bridge: UInt32) -> [ModelLink] { self.links.filter { $0.master == bridge } }

  /// The port of a bond that carries all traffic: the first working one.
  func activePort(of bond: UInt32) -> ModelLink? {
    self.ports(of: bond).first { $0.isUp && $0.hasCarrier }
  }

  /// The links that may have routers: neither ports, nor links above a cable.
  var uplinks: [ModelLink] {
    self.links.filter { $0.master == nil && [.wired, .wifi, .bridge, .bond].contains($0.sort) }
  }

  private func carries(_ link: ModelLink) -> Bool {
    guard link.hasCarrier else { return false }
    if link.sort == .bridge || link.sort == .bond {
      return self.ports(of: link.index).contains { $0.isUp && $0.hasCarrier }
    }
    guard let lower = self[link.lower] else { return link.sort != .vlan }
    return lower.isUp && lower.hasCarrier
  }
}

// MARK: - Numbers

extension IPAddress {
  static func bytes(_ bytes: [UInt8]) -> IPAddress {
    IPAddress(bytes: bytes) ?? .unspecified(.ipv4)
  }
}

extension IPPrefix {
  static func block(_ address: IPAddress, _ length: Int) -> IPPrefix {
    guard let prefix = IPPrefix(address, length: length) else {
      preconditionFailure("\(address) has no prefix of \(length) bits")
    }
    return prefix
  }

  static func all(_ family: AddressFamily) -> IPPrefix { .block(.unspecified(family), 0) }
}

extension ModelLink {
  /// The number of a network's subnet. Two networks of a kind share it, as many homes do; a modem
  /// gets another one from each.
  private var subnet: UInt8 {
    switch self.sort {
    case .cellular: self.network
    case .vlan: (self.network & ~1) + 100
    case .bridge: 150
    case .tunnel: 200
    case .container: UInt8(30 + self.index % 60)
    default: self.network & ~1
    }
  }

  func host(_ family: AddressFamily, _ host: UInt8) -> Address {
    let zeros = [UInt8](repeating: 0, count: 9)
    let bytes =
      family == .ipv4
      ? [10, self.subnet, 0, host] : [0x20, 0x01, 0x0d, 0xb8, 0, self.subnet] + zeros + [host]
    return Address(
      .bytes(bytes), prefixLength: family == .ipv4 ? 24 : 64, link: self.index)
  }

  /// A router's address, which in IPv6 is link-local.
  func router(_ family: AddressFamily, _ number: UInt8) -> IPAddress {
    family == .ipv4
      ? self.host(.ipv4, number).address
      : .bytes([0xfe, 0x80] + [UInt8](repeating: 0, count: 13) + [number])
  }

  /// The MAC address that answers: another device in each network.
  func hardwareAddress(of router: IPAddress) -> [UInt8] {
    [2, 0, 0, 0, self.network, router.bytes.last ?? 0]
  }
}
