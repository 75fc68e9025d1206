package import Connectivity

/// A link, its device according to sysfs, and its state according to ModemManager. Classification
/// depends on nothing else. Copies share their storage, because many values hold the same facts.
///
/// Implements rule K3.
package struct LinkFacts: Hashable, Sendable {
  private final class Storage: Sendable {
    let link: Link
    let device: Device
    let modem: ModemLink?
    let verdict: MediumVerdict

    init(_ link: Link, _ device: Device, _ modem: ModemLink?) {
      self.link = link
      self.device = device
      self.modem = modem
      self.verdict = MediumVerdict(link, device, isModem: modem != nil)
    }
  }

  private var storage: Storage

  package init(_ link: Link, device: Device = .unknown, modem: ModemLink? = nil) {
    self.storage = Storage(link, device, modem)
  }

  package var link: Link {
    get { self.storage.link }
    set { self.storage = Storage(newValue, self.device, self.modem) }
  }

  package var device: Device {
    get { self.storage.device }
    set { self.storage = Storage(self.link, newValue, self.modem) }
  }

  /// The link's state according to ModemManager, or `nil` if it is not known to belong to a modem.
  package var modem: ModemLink? {
    get { self.storage.modem }
    set { self.storage = Storage(self.link, self.device, newValue) }
  }

  /// The evidence of rule K5, without the configuration.
  var verdict: MediumVerdict { self.storage.verdict }

  package static func == (lhs: LinkFacts, rhs: LinkFacts) -> Bool {
    lhs.storage === rhs.storage
      || lhs.link == rhs.link && lhs.device == rhs.device && lhs.modem == rhs.modem
  }

  package func hash(into hasher: inout Hasher) {
    hasher.combine(self.link)
    hasher.combine(self.device)
    hasher.combine(self.modem)
  }
}

/// The evidence for a link's medium.
enum MediumVerdict: Hashable {
  /// The link has this medium itself, or its medium is unknown.
  case medium(KernelPath.Evidence)
  /// The link has the medium of the path below it (K6), or that of the evidence if this path is
  /// unknown.
  case stacked(KernelPath.Evidence)
}

extension MediumVerdict {
  /// Evaluates the evidence in the order of rule K5.
  ///
  /// The kind comes from the driver that created the link. So it takes precedence over everything
  /// that can be set or imitated. For example, a tun device accepts any ARPHRD type and any name,
  /// and stays a tun. If the kind does not determine the medium, ModemManager and the driver of a
  /// serial line decide.
  fileprivate init(_ link: Link, _ device: Device, isModem: Bool) {
    let line = device.serialDriver.flatMap { driver in
      Knowledge.lineDrivers[driver].map { KernelPath.Evidence(.driver, driver, $0) }
    }
    if link.kind == "ppp", !device.lowerLinks.isEmpty, !isModem, line == nil {
      self = .stacked(KernelPath.Evidence(.kind, "ppp", .unknown))
    } else if let verdict = link.kind.flatMap(Self.init(ofKind:)),
      !(verdict.isUnplaced && (isModem || line != nil))
    {
      self = verdict
    } else if let (name, medium) = Knowledge.hardwareTypes[link.hardwareType] {
      self.init(KernelPath.Evidence(.hardwareType, name, medium))
    } else if let type = device.type, let medium = Knowledge.deviceTypes[type] {
      self.init(KernelPath.Evidence(.deviceType, type, medium))
    } else if device.hasPhy80211 {
      self = .medium(KernelPath.Evidence(.phy80211, "phy80211", .wifi))
    } else if let role = device.wireless?.role {
      self = .medium(KernelPath.Evidence(.nl80211, role.rawValue, .wifi))
    } else if isModem {
      self = .medium(KernelPath.Evidence(.modemManager, "bearer", .cellular))
    } else if let line {
      self = .medium(line)
    } else if let driver = device.driver, let medium = Knowledge.drivers[driver] {
      self = .medium(KernelPath.Evidence(.driver, driver, medium))
    } else if let (prefix, medium) = Knowledge.names.first(where: { link.name.hasPrefix($0.0) }) {
      self = .medium(KernelPath.Evidence(.name, "\(prefix)*", medium))
    } else if link.hardwareType == arphrdEthernet, link.kind == nil, device.type == nil {
      // Only a link without a kind and without contrary evidence counts as a cable. Software
      // creates many kinds of Ethernet links, but these have a kind.
      self = .medium(KernelPath.Evidence(.hardwareType, "ether", .wired))
    } else {
      self = .medium(KernelPath.Evidence(.none, "", .unknown))
    }
  }

  private var isUnplaced: Bool {
    if case .medium(let evidence) = self { evidence.medium == .unknown } else { false }
  }

  private init?(ofKind kind: String) {
    if stackingKinds.contains(kind) {
      self = .stacked(KernelPath.Evidence(.kind, kind, .unknown))
    } else if let medium = Knowledge.kinds[kind] {
      self.init(KernelPath.Evidence(.kind, kind, medium))
    } else {
      return nil
    }
  }

  private init(_ evidence: KernelPath.Evidence) {
    self = evidence.medium == .tunnel ? .stacked(evidence) : .medium(evidence)
  }
}

extension LinkFacts {
  /// Whether the link's medium is known, or may be known from the links below it.
  package var isPlaced: Bool {
    switch self.verdict {
    case .medium(let evidence): evidence.medium != .unknown
    case .stacked: true
    }
  }
}

extension LinkFacts {
  /// Whether the link has the medium of the path below it, which may change at any time.
  package var isStacked: Bool {
    if case .stacked = self.verdict { true } else { false }
  }
}

extension LinkFacts {
  /// Whether the link itself is a Wi-Fi link.
  package var isWireless: Bool {
    if case .medium(let evidence) = self.verdict { evidence.medium == .wifi } else { false }
  }
}

extension LinkFacts {
  /// Whether the link sends its traffic inside other packets. Connections inside survive a change
  /// of the path below.
  package var isTunnel: Bool {
    if case .stacked(let evidence) = self.verdict { evidence.medium == .tunnel } else { false }
  }
}

/// The continuation of a path below a link.
package enum Below: Hashable, Sendable {
  /// The link is the lowest, or the path below it is unknown.
  case nothing
  /// One of these links: the lower link, or the ports of a bridge, bond or team.
  case links([UInt32])
  /// The path to a tunnel's remote end.
  case destination(Destination)
}

extension LinkFacts {
  /// The continuation of the path below the link (K6).
  package var below: Below {
    guard self.isStacked else { return .nothing }
    if let port = self.link.activePort { return .links([port]) }
    // The lower link of an xfrm link is only nominal and may be lo. The kernel chooses the path of
    // the packets (xfrmi_xmit2).
    if self.link.kind == "xfrm" { return .nothing }
    if let lower = self.link.lower, lower != self.link.index { return .links([lower]) }
    if !self.device.lowerLinks.isEmpty { return .links(self.device.lowerLinks) }
    if let outer = self.link.outer { return .destination(outer) }
    return .nothing
  }
}

extension LinkFacts {
  /// The other end of a pair of links, or `nil` without one in this namespace. Each end receives
  /// what the other sends.
  package var peer: UInt32? { self.isOfPair ? self.link.lower : nil }

  /// Whether the link's kind suggests a virtual machine or a container behind it.
  package var isGuest: Bool {
    self.link.kind == "tun" || self.isOfPair && self.link.lower == nil
  }

  private var isOfPair: Bool { self.link.kind.map(pairKinds.contains) ?? false }
}

extension LinkFacts {
  /// Whether the link is a tunnel that hides its remote end from unprivileged processes, so that
  /// the link below can only be guessed. A tap in a bridge does not count, because it usually
  /// belongs to a virtual machine.
  package var hidesItsEnd: Bool {
    guard secretiveKinds.contains(self.link.kind ?? self.device.type ?? "") else { return false }
    return self.below == .nothing && self.link.master == nil
  }
}

extension LinkFacts {
  /// Whether the link drops everything that is sent over it (drivers/net/dummy.c, ifb.c, nlmon.c).
  package var neverCarries: Bool { self.link.kind.map(sinkKinds.contains) ?? false }

  /// Whether the link sends all packets to its lower link, and none to other links above that lower
  /// link.
  package var passesAllDown: Bool { self.link.kind.map(passingKinds.contains) ?? false }

  /// Whether the link, as a master, takes the frames of its ports before the kernel considers the
  /// ports' own addresses.
  package var takesWhatPortsReceive: Bool { self.link.kind.map(takingKinds.contains) ?? false }

  /// Whether the link belongs to Open vSwitch: a switch, or a switch's port with addresses.
  package var isOpenVSwitch: Bool { self.link.kind == "openvswitch" }

  /// Whether the link, as a master, passes frames from one port to another.
  package var isSwitch: Bool { self.isOpenVSwitch || self.link.kind == "bridge" }
}

extension Link {
  /// The link's state as seen by its bridge: `dormant` while the bridge port does not forward
  /// frames. Links on top of the port, such as a VLAN, bypass the bridge.
  package var stateAsPort: LinkState {
    self.state == .up && self.bridgePort?.forwards == false ? .dormant : self.state
  }

  /// The link's state, derived from everything that the kernel reports.
  ///
  /// No single indicator is sufficient (Documentation/networking/operstates.rst). A driver without
  /// an operational state reports `unknown` and means up. A Wi-Fi link that is not yet connected
  /// reports `unknown` with IFF_RUNNING, and has no carrier.
  package var state: LinkState {
    guard self.flags.contains(.up) else { return .down }
    if self.carrier == false { return .noCarrier }
    switch self.operationalState {
    case .notPresent, .down, .lowerLayerDown: return .noCarrier
    case .dormant, .testing: return .dormant
    case .unknown, .up: break
    }
    if !self.flags.contains(.lowerUp) { return .noCarrier }
    return self.flags.contains(.dormant) ? .dormant : .up
  }
}

// MARK: - Knowledge by name

/// Kinds of links that only pass on the traffic of the link below.
private let stackingKinds: Set<String> = [
  "batadv", "bond", "bridge", "hsr", "ipvlan", "ipvtap", "macsec", "macvlan", "macvtap",
  "openvswitch", "team", "vlan", "vrf",
]

/// Masters that take all frames of their ports by an `rx_handler`. A VRF and batman-adv leave IP
/// packets to the port.
private let takingKinds: Set<String> = ["bond", "bridge", "openvswitch", "team"]

/// Stacking kinds that pass no packets between links on top of the same lower link.
private let passingKinds: Set<String> = ["bond", "macsec", "team", "vlan"]

/// Kinds of links that come in pairs. `IFLA_LINK` names the other end
/// (drivers/net/veth.c, netkit.c).
private let pairKinds: Set<String> = ["netkit", "veth"]

/// Kinds of links that drop all packets. A VPN's kill switch routes traffic into such a link.
private let sinkKinds: Set<String> = ["dummy", "ifb", "nlmon"]

/// Tunnels with a hidden remote end. The kernel reveals it only with CAP_NET_ADMIN, or only a
/// program knows it.
private let secretiveKinds: Set<String> = [
  "l2tpeth", "ovpn", "ovpn-dco", "tun", "wireguard", "xfrm",
]

private let arphrdEthernet: UInt16 = 1

/// The medium that each sign of a link indicates. ARPHRD_PPP is missing: it may be a modem or DSL.
private enum Knowledge {
  static let kinds = Self.media(\.kinds)
  static let deviceTypes = Self.media(\.deviceTypes)
  static let lineDrivers = Self.media(\.lineDrivers)
  static let drivers = Self.media(\.drivers)
  static let names = NetworkMedium.allCases.flatMap { medium in
    medium.traits.signs.names.map { ($0, medium) }
  }
  static let hardwareTypes = NetworkMedium.allCases.reduce(
    into: [UInt16: (String, NetworkMedium)]()
  ) {
    types, medium in
    for (type, name) in medium.traits.signs.hardwareTypes { types[type] = (name, medium) }
  }

  private static func media(_ signs: KeyPath<NetworkMedium.Signs, [String]>) -> [String:
    NetworkMedium]
  {
    NetworkMedium.allCases.reduce(into: [:]) { media, medium in
      for sign in medium.traits.signs[keyPath: signs] { media[sign] = medium }
    }
  }
}
