import Connectivity
import Testing

@testable import ConnectivityRules

@Suite("Classification of links")
struct LinkClassifierTests {
  /// A working link, with the properties that a test sets.
  static func link(
    _ name: String = "x0", index: UInt32 = 7, kind: String? = nil, type: UInt16 = 1,
    device: Device = .unknown, modem: ModemLink? = nil, lower: UInt32? = nil,
    activePort: UInt32? = nil, remote: IPAddress? = nil,
    flags: LinkFlags = [.up, .lowerUp, .running],
    state: OperationalState = .up, carrier: Bool? = true
  ) -> LinkFacts {
    LinkFacts(
      Link(
        index: index, name: name, kind: kind, hardwareType: type, flags: flags,
        operationalState: state, carrier: carrier, lower: lower, activePort: activePort,
        outer: remote.map { Destination($0) }),
      device: device, modem: modem)
  }

  static let evidenceTable: [(LinkFacts, KernelPath.Evidence)] = [
    (link(kind: "wwan", type: 65534), KernelPath.Evidence(.kind, "wwan", .cellular)),
    (link(kind: "veth"), KernelPath.Evidence(.kind, "veth", .unknown)),
    (
      link("ppp0", kind: "ppp", type: 512, modem: ModemLink()),
      KernelPath.Evidence(.modemManager, "bearer", .cellular)
    ),
    // A modem that looks like a cable.
    (
      link("usb0", device: Device(driver: "cdc_ether"), modem: .silent),
      KernelPath.Evidence(.modemManager, "bearer", .cellular)
    ),
    (link("tun0", kind: "tun", modem: ModemLink()), KernelPath.Evidence(.kind, "tun", .tunnel)),
    (link(type: 772), KernelPath.Evidence(.hardwareType, "loopback", .loopback)),
    (link(type: 519), KernelPath.Evidence(.hardwareType, "rawip", .cellular)),
    (link(type: 801), KernelPath.Evidence(.hardwareType, "ieee80211", .wifi)),
    (link(device: Device(type: "wlan")), KernelPath.Evidence(.deviceType, "wlan", .wifi)),
    (link(device: Device(type: "wwan")), KernelPath.Evidence(.deviceType, "wwan", .cellular)),
    (
      link(device: Device(type: "bluetooth")),
      KernelPath.Evidence(.deviceType, "bluetooth", .bluetooth)
    ),
    (link(device: Device(hasPhy80211: true)), KernelPath.Evidence(.phy80211, "phy80211", .wifi)),
    (link(device: Device(driver: "qmi_wwan")), KernelPath.Evidence(.driver, "qmi_wwan", .cellular)),
    (link("rmnet_data0"), KernelPath.Evidence(.name, "rmnet*", .cellular)),
    (link("ppp0", kind: "ppp", type: 512), KernelPath.Evidence(.kind, "ppp", .unknown)),
    (
      link("ppp0", kind: "ppp", type: 512, device: Device(serialDriver: "option1")),
      KernelPath.Evidence(.driver, "option1", .cellular)
    ),
    (link("ppp0", type: 512), KernelPath.Evidence(.none, "", .unknown)),
    (
      link("l2tpeth0", device: Device(type: "l2tpeth")),
      KernelPath.Evidence(.deviceType, "l2tpeth", .tunnel)
    ),
    (link("eth0"), KernelPath.Evidence(.hardwareType, "ether", .wired)),
    (
      link("eth0", device: Device(driver: "virtio_net")),
      KernelPath.Evidence(.hardwareType, "ether", .wired)
    ),
  ]

  @Test("K5 each source of evidence alone gives its medium", arguments: evidenceTable)
  func evidence(facts: LinkFacts, expected: KernelPath.Evidence) {
    #expect(PathClassifier().evidence(for: facts) == expected)
  }

  @Test("K5 the first source in the rule's order wins")
  func order() {
    // Each link has all evidence from one place of the order on, and no two pieces agree.
    let everything = Device(type: "wlan", hasPhy80211: true, driver: "qmi_wwan")
    let all = Self.link("wwan0", kind: "veth", type: 772, device: everything)
    let policy = PathClassifier(policy: LinkPolicy([.init(match: "wwan*", medium: .bluetooth)]))
    #expect(policy.evidence(for: all).source == .configuration)
    #expect(PathClassifier().evidence(for: all).source == .kind)
    let noKind = Self.link("wwan0", type: 772, device: everything)
    #expect(PathClassifier().evidence(for: noKind).source == .hardwareType)
    let noType = Self.link("wwan0", device: everything)
    #expect(PathClassifier().evidence(for: noType).source == .deviceType)
    let phy = Self.link("wwan0", device: Device(hasPhy80211: true, driver: "qmi_wwan"))
    #expect(PathClassifier().evidence(for: phy).source == .phy80211)
    let modem = Self.link("wwan0", device: Device(driver: "bnep"), modem: ModemLink())
    #expect(PathClassifier().evidence(for: modem).source == .modemManager)
    let role = Self.link(
      "wwan0", device: Device(wireless: WirelessLink(role: .station)), modem: ModemLink())
    #expect(PathClassifier().evidence(for: role).source == .nl80211)
    let driver = Self.link("wwan0", device: Device(driver: "bnep"))
    #expect(PathClassifier().evidence(for: driver).source == .driver)
    let name = Self.link("wwan0")
    #expect(PathClassifier().evidence(for: name).source == .name)
  }

  @Test(
    "K5 a link without evidence is unknown, never wired",
    arguments: [
      link(kind: "veth"), link(kind: "dummy"), link(kind: "some-new-kind"),
      link(device: Device(type: "some-new-type")), link(type: 65534), link(type: 824),
    ])
  func neverWired(facts: LinkFacts) {
    #expect(PathClassifier().evidence(for: facts).medium == .unknown)
  }

  @Test(
    "K5 ppp over a modem's serial driver → cellular; over a generic driver → unknown",
    arguments: [
      ("option1", .cellular), ("qcserial", .cellular), ("sierra", .cellular), ("ipw", .cellular),
      ("hso", .cellular), ("nozomi", .cellular), ("cdc_acm", .unknown), ("ftdi_sio", .unknown),
      ("pl2303", .unknown), ("cp210x", .unknown), ("ch341-uart", .unknown),
      ("serial8250", .unknown),
      ("qmi_wwan", .unknown), (nil, .unknown),
    ] as [(String?, NetworkMedium)])
  func serialLines(driver: String?, medium: NetworkMedium) {
    let device = Device(serialDriver: driver)
    let ppp = Self.link("ppp0", kind: "ppp", type: 512, device: device)
    #expect(PathClassifier().evidence(for: ppp).medium == medium)
    let known = Self.link("ppp0", kind: "ppp", type: 512, device: device, modem: ModemLink())
    #expect(PathClassifier().evidence(for: known).source == .modemManager)
    // The driver counts only if the link's kind says nothing.
    let tunnel = Self.link("tun0", kind: "tun", type: 65534, device: device)
    #expect(PathClassifier().evidence(for: tunnel).medium == .tunnel)
    let policy = PathClassifier(policy: LinkPolicy([.init(match: "ppp*", medium: .wired)]))
    #expect(policy.evidence(for: ppp).medium == .wired)
  }

  private static func usb(
    _ driver: String?, _ codes: (UInt8, UInt8, UInt8), type: String? = nil
  ) -> LinkFacts {
    let interface = USBInterface(codes.0, codes.1, codes.2)
    return Self.link(
      "usb0", device: Device(type: type, driver: driver, usbInterface: interface))
  }

  @Test(
    "K5 a USB tether is wired, via a phone if its USB class says so",
    arguments: [
      (usb("ipheth", (0xff, 0xfd, 0x01)), Via(.phone, isGuess: false)),
      // Android: RNDIS as a wireless controller, and RNDIS over Ethernet.
      (usb("rndis_host", (0xe0, 0x01, 0x03)), Via(.phone, isGuess: true)),
      (usb("rndis_host", (0xef, 0x04, 0x01)), Via(.phone, isGuess: true)),
      // A board with this kernel's own gadget. ActiveSync, of obsolete phones.
      (usb("rndis_host", (0x02, 0x02, 0xff)), nil),
      (usb("rndis_host", (0xef, 0x01, 0x01)), nil),
      // ECM: a Realtek adapter, a router on a stick, a board. NCM: a dock, and newer phones.
      (usb("cdc_ether", (0x02, 0x06, 0x00)), nil),
      (usb("cdc_ncm", (0x02, 0x0d, 0x00)), nil),
      (usb("r8152", (0xff, 0xff, 0x00)), nil),
      (usb("rndis_host", (0xef, 0x04, 0x01), type: "wwan"), nil),
      (link("eth1", device: Device(driver: "ipheth")), Via(.phone, isGuess: false)),
      (link("usb0", device: Device(driver: "rndis_host")), nil),
      (link("usb0", device: Device(driver: "cdc_ether")), nil),
      (link("eth0", device: Device(driver: "e1000e")), nil),
      (link("eth0"), nil),
      // A modem that says so.
      (link("wwan0", device: Device(type: "wwan", driver: "cdc_ether")), nil),
      (link("usb0", device: Device(driver: "cdc_ether"), modem: ModemLink()), nil),
      (link("usb0.7", kind: "vlan", device: Device(driver: "ipheth")), nil),
    ] as [(LinkFacts, Via?)])
  func phones(facts: LinkFacts, via: Via?) {
    #expect(facts.via == via)
    if via != nil { #expect(PathClassifier().evidence(for: facts).medium == .wired) }
  }

  @Test(
    "K5 the configuration beats all other evidence, and its first match wins",
    arguments: [
      ("wwan0", NetworkMedium.cellular), ("wlp3s0", .wifi), ("wlp3s1", .wired), ("other", .unknown),
    ])
  func configuration(name: String, medium: NetworkMedium) {
    let policy = LinkPolicy([
      .init(match: "wwan*", medium: .cellular), .init(match: "wlp3s0", medium: .wifi),
      .init(match: "wlp3s[0-9]", medium: .wired), .init(match: "ww*", medium: .tunnel),
    ])
    let veth = Self.link(name, kind: "veth")
    #expect(PathClassifier(policy: policy).evidence(for: veth).medium == medium)
  }

  static let stacks: [(LinkFacts, Below)] = [
    (link(kind: "vlan", lower: 2), .links([2])),
    (link(kind: "macvlan", lower: 2), .links([2])),
    (link(kind: "bond", device: Device(lowerLinks: [2, 3]), activePort: 3), .links([3])),
    (link(kind: "bond", device: Device(lowerLinks: [2, 3])), .links([2, 3])),
    (link(kind: "bridge", device: Device(lowerLinks: [2, 3])), .links([2, 3])),
    (link(kind: "vxlan", lower: 2, remote: "192.0.2.1"), .links([2])),
    (link(kind: "gre", remote: "192.0.2.1"), .destination(Destination("192.0.2.1"))),
    (link(kind: "wireguard", type: 65534), .nothing),
    (link(kind: "tun", type: 65534), .nothing),
    (link(kind: "veth", lower: 2), .nothing),
    (link("br-ex", kind: "openvswitch", device: Device(lowerLinks: [2, 3])), .links([2, 3])),
    (link("bat0", kind: "batadv", device: Device(lowerLinks: [2])), .links([2])),
    (link("ppp0", kind: "ppp", type: 512, device: Device(lowerLinks: [2])), .links([2])),
    (link("ppp0", kind: "ppp", type: 512), .nothing),
    (
      link("ppp0", kind: "ppp", device: Device(serialDriver: "option1", lowerLinks: [2])), .nothing
    ),
    (
      link("ppp0", kind: "ppp", device: Device(lowerLinks: [2]), modem: ModemLink()), .nothing
    ),
    (link("eth0", lower: 2), .nothing),
    (link(kind: "vlan", lower: 7), .nothing),
  ]

  @Test("K6 a stacked link names the link below it", arguments: stacks)
  func below(facts: LinkFacts, expected: Below) {
    #expect(facts.below == expected)
  }

  @Test("K3 a bridge's port that does not forward is dormant")
  func bridgePort() {
    var link = Self.link().link
    link.bridgePort = BridgePort()
    #expect(link.stateAsPort == .up)
    link.bridgePort?.forwards = false
    #expect(link.stateAsPort == .dormant && link.state == .up)
    link.carrier = false
    #expect(link.stateAsPort == .noCarrier)
  }

  @Test("K6 the link below L2TP can only be guessed")
  func l2tp() {
    #expect(Self.link("l2tpeth0", device: Device(type: "l2tpeth")).hidesItsEnd)
  }

  @Test("K6 a chain takes the medium of its lowest link")
  func chain() {
    let vlan = Self.link("vlan10", kind: "vlan", lower: 2)
    let bond = Self.link("bond0", kind: "bond", activePort: 3)
    let wifi = Self.link("wlan0", device: Device(type: "wlan"))
    #expect(PathClassifier().evidence(for: [vlan, bond, wifi]).medium == .wifi)
    let wireguard = Self.link("wg0", kind: "wireguard", type: 65534)
    #expect(PathClassifier().evidence(for: [wireguard]).medium == .tunnel)
    let bridge = Self.link("br0", kind: "bridge")
    #expect(PathClassifier().evidence(for: [bridge]).medium == .unknown)
    let configured = PathClassifier(policy: LinkPolicy([.init(match: "bond0", medium: .wired)]))
    #expect(configured.evidence(for: [vlan, bond, wifi]).medium == .wired)
  }

  static let states: [(LinkFacts, LinkState)] = [
    (link(), LinkState.up),
    (link(state: .unknown, carrier: nil), .up),
    (link(flags: [.lowerUp, .running]), .down),
    (link(flags: [.up, .lowerUp], state: .dormant), .dormant),
    (link(flags: [.up, .lowerUp, .dormant], state: .unknown), .dormant),
    (link(flags: [.up], state: .down, carrier: false), .noCarrier),
    (link(state: .lowerLayerDown, carrier: nil), .noCarrier),
    // Wi-Fi before its supplicant: IFF_RUNNING, state unknown, no carrier.
    (link(flags: [.up, .running], state: .unknown, carrier: false), .noCarrier),
    (link(flags: [.up, .running], state: .up, carrier: true), .noCarrier),
    (link(state: .testing), .dormant),
  ]

  @Test("K3 a link's state combines flags, operational state and carrier", arguments: states)
  func state(facts: LinkFacts, expected: LinkState) {
    #expect(facts.link.state == expected)
  }
}
