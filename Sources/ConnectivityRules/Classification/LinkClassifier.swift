package import Connectivity

/// A link, what sysfs says about its device and ModemManager about it: all that a classification of it rests on. Many hold the
/// same: a copy is a reference.
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

  /// What ModemManager says of the link; `nil` where it is none of a modem's, as far as is known.
  package var modem: ModemLink? {
    get { self.storage.modem }
    set { self.storage = Storage(self.link, self.device, newValue) }
  }

  /// The evidence of rule K5, without the configuration's.
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

/// What a link says about the medium.
enum MediumVerdict: Hashable {
  /// It is this medium itself, or nobody can place it.
  case medium(Evidence)
  /// It takes the medium of what is below it (K6); with nothing known below, the evidence's.
  case stacked(Evidence)
}

extension MediumVerdict {
  /// By the evidence in the rule's order.
  ///
  /// A kind is the word of the driver that made the link, so it speaks before all that can be set or imitated: a tun
  /// device takes any ARPHRD type and any name, and stays a tun. A kind that places nothing leaves the word to ModemManager, and to the driver
  /// of a serial line.
  fileprivate init(_ link: Link, _ device: Device, isModem: Bool) {
    let line = device.serialDriver.flatMap { modemLineDrivers.contains($0) ? $0 : nil }
    if link.kind == "ppp", !device.lowerLinks.isEmpty, !isModem, line == nil {
      self = .stacked(Evidence(.kind, "ppp", .unknown))
    } else if let verdict = link.kind.flatMap(Self.init(ofKind:)),
      !(verdict.isUnplaced && (isModem || line != nil))
    {
      self = verdict
    } else if let (name, medium) = hardwareTypes[link.hardwareType] {
      let evidence = Evidence(.hardwareType, name, medium)
      self = medium == .tunnel ? .stacked(evidence) : .medium(evidence)
    } else if let type = device.type, let medium = deviceTypes[type] {
      let evidence = Evidence(.deviceType, type, medium)
      self = medium == .tunnel ? .stacked(evidence) : .medium(evidence)
    } else if device.hasPhy80211 {
      self = .medium(Evidence(.phy80211, "phy80211", .wifi))
    } else if let role = device.wireless?.role {
      self = .medium(Evidence(.nl80211, role.rawValue, .wifi))
    } else if isModem {
      self = .medium(Evidence(.modemManager, "bearer", .cellular))
    } else if let line {
      self = .medium(Evidence(.driver, line, .cellular))
    } else if let driver = device.driver, let medium = drivers[driver] {
      self = .medium(Evidence(.driver, driver, medium))
    } else if let prefix = cellularPrefixes.first(where: { link.name.hasPrefix($0) }) {
      self = .medium(Evidence(.name, "\(prefix)*", .cellular))
    } else if link.hardwareType == arphrdEthernet, link.kind == nil, device.type == nil {
      // Only a link without a kind and without a word against it is taken for a cable: software makes Ethernet links
      // of every kind, and those are the ones that say so.
      self = .medium(Evidence(.hardwareType, "ether", .wired))
    } else {
      self = .medium(Evidence(.none, "", .unknown))
    }
  }

  private var isUnplaced: Bool {
    if case .medium(let evidence) = self { evidence.medium == .unknown } else { false }
  }

  private init?(ofKind kind: String) {
    if stackingKinds.contains(kind) {
      self = .stacked(Evidence(.kind, kind, .unknown))
    } else if tunnelKinds.contains(kind) {
      self = .stacked(Evidence(.kind, kind, .tunnel))
    } else if cellularKinds.contains(kind) {
      self = .medium(Evidence(.kind, kind, .cellular))
    } else if unplacedKinds.contains(kind) {
      self = .medium(Evidence(.kind, kind, .unknown))
    } else {
      return nil
    }
  }
}

extension LinkFacts {
  /// Whether the link's medium is known, or may be known from what is below it.
  package var isPlaced: Bool {
    switch self.verdict {
    case .medium(let evidence): evidence.medium != .unknown
    case .stacked: true
    }
  }
}

extension LinkFacts {
  /// Whether the link's medium is that of what is below it, which may change at any time.
  package var isStacked: Bool {
    if case .stacked = self.verdict { true } else { false }
  }
}

extension LinkFacts {
  /// Whether the link itself is one of Wi-Fi.
  package var isWireless: Bool {
    if case .medium(let evidence) = self.verdict { evidence.medium == .wifi } else { false }
  }
}

extension LinkFacts {
  /// Whether what the link sends travels inside other packets: connections in it outlive a change of what is below.
  package var isTunnel: Bool {
    if case .stacked(let evidence) = self.verdict { evidence.medium == .tunnel } else { false }
  }
}

/// Where a path goes on below a link.
package enum Below: Hashable, Sendable {
  /// Nowhere: the link is the bottom, or nothing is known of what is below.
  case nothing
  /// By one of these links: the lower link, or the ports of a bridge, bond or team.
  case links([UInt32])
  /// By the path to a tunnel's other end.
  case destination(Destination)
}

extension LinkFacts {
  /// What is below the link (K6).
  package var below: Below {
    guard self.isStacked else { return .nothing }
    if let port = self.link.activePort { return .links([port]) }
    // That of xfrm is no more than a name: the way of its packets is the kernel's choice (xfrmi_xmit2), and it may be lo.
    if self.link.kind == "xfrm" { return .nothing }
    if let lower = self.link.lower, lower != self.link.index { return .links([lower]) }
    if !self.device.lowerLinks.isEmpty { return .links(self.device.lowerLinks) }
    if let outer = self.link.outer { return .destination(outer) }
    return .nothing
  }
}

extension LinkFacts {
  /// Whether the link is a tunnel that says nothing of its other end to whom is not privileged, so that what is below it can only be
  /// guessed. (A tap in a bridge is mostly a virtual machine.)
  package var hidesItsEnd: Bool {
    guard secretiveKinds.contains(self.link.kind ?? self.device.type ?? "") else { return false }
    return self.below == .nothing && self.link.master == nil
  }
}

extension LinkFacts {
  /// Whether the link drops whatever is sent over it (drivers/net/dummy.c, ifb.c, nlmon.c).
  package var neverCarries: Bool { self.link.kind.map(sinkKinds.contains) ?? false }

  /// Whether all that the link sends goes to the link below it, and nothing to others above that.
  package var passesAllDown: Bool { self.link.kind.map(passingKinds.contains) ?? false }

  /// Whether the link, as the master of others, takes what these receive before their own addresses are looked at.
  package var takesWhatPortsReceive: Bool { self.link.kind.map(takingKinds.contains) ?? false }

  /// Whether the link is one of Open vSwitch's own: a switch, or a port of it that has addresses.
  package var isOpenVSwitch: Bool { self.link.kind == "openvswitch" }
}

/// Whether a link carries traffic.
package enum LinkState: String, Hashable, Sendable, CaseIterable {
  /// Administratively down.
  case down
  /// Administratively up, and nothing at the other end.
  case noCarrier
  /// It has a carrier and waits for something: 802.1X, the Wi-Fi handshake, a modem that has not dialled, a bridge's spanning tree.
  case dormant
  /// It carries traffic.
  case up
}

extension Link {
  /// The state as a port of its bridge, which holds frames back while the port is not forwarding. What is above the port on its own,
  /// a VLAN for one, does not ask the bridge.
  package var stateAsPort: LinkState {
    self.state == .up && self.bridgePort?.forwards == false ? .dormant : self.state
  }

  /// The state, from all that the kernel says about it.
  ///
  /// No single sign is enough (Documentation/networking/operstates.rst): a driver without an operational state says
  /// `unknown` and means up; Wi-Fi before its supplicant says `unknown` with IFF_RUNNING and has no carrier.
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

// MARK: - What is known by name

/// Kinds whose links only pass on what the link below them carries.
private let stackingKinds: Set<String> = [
  "batadv", "bond", "bridge", "hsr", "ipvlan", "ipvtap", "macsec", "macvlan", "macvtap",
  "openvswitch", "team", "vlan", "vrf",
]

/// Masters whose `rx_handler` takes all frames of their ports. (A VRF and batman-adv leave IP to the port.)
private let takingKinds: Set<String> = ["bond", "bridge", "openvswitch", "team"]

/// Of the stacking kinds those whose links do not also connect what is above the same lower link.
private let passingKinds: Set<String> = ["bond", "macsec", "team", "vlan"]

/// Kinds that carry nothing: a VPN's kill switch leads a default route into one.
private let sinkKinds: Set<String> = ["dummy", "ifb", "nlmon"]

/// Kinds whose links send through another path.
private let tunnelKinds: Set<String> = [
  "amt", "bareudp", "erspan", "geneve", "gre", "gretap", "gtp", "ip6erspan", "ip6gre", "ip6gretap",
  "ip6tnl", "ipip", "ovpn", "ovpn-dco", "sit", "tun", "vti", "vti6", "vxlan", "wireguard", "xfrm",
]

/// Tunnels whose end the kernel tells only those with CAP_NET_ADMIN, or does not know: a program has it.
private let secretiveKinds: Set<String> = [
  "l2tpeth", "ovpn", "ovpn-dco", "tun", "wireguard", "xfrm",
]

private let cellularKinds: Set<String> = ["rmnet", "wwan"]

/// Kinds whose other end this system cannot see: behind a ppp link it may be a modem, DSL or a tunnel.
private let unplacedKinds: Set<String> = [
  "dummy", "ifb", "netdevsim", "netkit", "nlmon", "ppp", "veth",
]

private let arphrdEthernet: UInt16 = 1

/// ARPHRD types that tell the medium (include/uapi/linux/if_arp.h). ARPHRD_PPP does not: it may be a modem or DSL.
private let hardwareTypes: [UInt16: (String, Medium)] = [
  32: ("infiniband", .wired), 519: ("rawip", .cellular), 768: ("tunnel", .tunnel),
  769: ("tunnel6", .tunnel), 772: ("loopback", .loopback), 776: ("sit", .tunnel),
  778: ("gre", .tunnel), 801: ("ieee80211", .wifi), 802: ("ieee80211_prism", .wifi),
  803: ("ieee80211_radiotap", .wifi), 820: ("phonet", .cellular), 821: ("phonet_pipe", .cellular),
  823: ("ip6gre", .tunnel),
]

/// What `SET_NETDEV_DEVTYPE` says in the kernel's drivers.
private let deviceTypes: [String: Medium] = [
  "bluetooth": .bluetooth, "dsa": .wired, "gadget": .wired, "l2tpeth": .tunnel, "wlan": .wifi,
  "wwan": .cellular,
]

/// Drivers of modems that do not all set a device type.
private let drivers: [String: Medium] = [
  "bnep": .bluetooth, "cdc_mbim": .cellular, "hso": .cellular, "huawei_cdc_ncm": .cellular,
  "iosm": .cellular, "mhi_wwan_mbim": .cellular, "mtk_t7xx": .cellular, "option": .cellular,
  "qmi_wwan": .cellular, "sierra_net": .cellular,
]

/// Drivers of the serial lines of nothing but modems of mobile networks (drivers/usb/serial: option.c, qcserial.c, sierra.c, ipw.c;
/// drivers/net/usb/hso.c, drivers/tty/nozomi.c). Not `cdc_acm`: boards, telephones of the fixed network and gadgets of this very kernel are
/// such lines, too, and announce themselves as modems do (02/02/01, AT commands), so that nothing tells them apart; a guess would make a
/// board's link expensive.
private let modemLineDrivers: Set<String> = [
  "hso", "ipw", "nozomi", "option1", "qcserial", "sierra",
]

/// Names that vendors' kernels give. Not `ppp`: it is DSL as often as a modem.
private let cellularPrefixes = ["rmnet", "rev_rmnet", "ccmni", "wwan"]
