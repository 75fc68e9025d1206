/// A network link as rtnetlink describes it.
package struct Link: Hashable, Sendable {
  /// What identifies the link as long as it exists in its namespace.
  package var index: UInt32
  /// At most 15 bytes, which need not be printable; it can change at any time.
  package var name: String
  /// Further names of the link (`ip link property add … altname`), of up to 127 bytes each, the oldest first.
  package var alternativeNames: [String] = []
  /// `IFLA_INFO_KIND`: `vlan`, `veth`, `tun`, …; `nil` for most hardware.
  package var kind: String?
  /// The ARPHRD type.
  package var hardwareType: UInt16
  package var flags: LinkFlags
  package var operationalState: OperationalState
  /// `IFLA_CARRIER`; `nil` where the kernel did not say.
  package var carrier: Bool?
  /// How often the link has lost its carrier since it was made (`IFLA_CARRIER_DOWN_COUNT`); `nil` where the kernel did not
  /// say.
  package var carrierDownCount: UInt32?
  /// `IFLA_LINK`, where that is a link of this namespace: the lower link of a vlan, a veth's other end.
  package var lower: UInt32?
  /// The bridge, bond, team or VRF that this link is a port of.
  package var master: UInt32?
  /// The port that an active-backup bond sends by.
  package var activePort: UInt32?
  /// The way that a tunnel's own packets are sent (gre, ipip, sit, vxlan, …): to its other end, and with all that the link says
  /// of them by which they are routed. `nil` where it sends to anyone, or does not say.
  package var outer: Destination?
  /// Octets.
  package var mtu: UInt32?
  /// Empty where the link has none.
  package var hardwareAddress: [UInt8]
  /// A message that tells of it says that it was made just now, or moved into this namespace: it has neither addresses nor
  /// routes yet (`ifi_change` of all ones, as register_netdevice and rtnl_configure_link send it).
  package var isNew = false

  package init(
    index: UInt32, name: String, kind: String? = nil, hardwareType: UInt16 = 1,
    flags: LinkFlags = [], operationalState: OperationalState = .unknown, carrier: Bool? = nil,
    lower: UInt32? = nil, master: UInt32? = nil, activePort: UInt32? = nil,
    outer: Destination? = nil, mtu: UInt32? = nil, hardwareAddress: [UInt8] = []
  ) {
    self.index = index
    self.name = name
    self.kind = kind
    self.hardwareType = hardwareType
    self.flags = flags
    self.operationalState = operationalState
    self.carrier = carrier
    self.lower = lower
    self.master = master
    self.activePort = activePort
    self.outer = outer
    self.mtu = mtu
    self.hardwareAddress = hardwareAddress
  }

  /// All names that the link goes by, its own first.
  package var names: [String] { [self.name] + self.alternativeNames }
}

/// `IFF_*` of netdevice(7), the ones that matter here.
package struct LinkFlags: OptionSet, Hashable, Sendable {
  package var rawValue: UInt32

  package init(rawValue: UInt32) { self.rawValue = rawValue }

  /// Administratively up.
  package static let up = LinkFlags(rawValue: 1 << 0)
  package static let loopback = LinkFlags(rawValue: 1 << 3)
  package static let pointToPoint = LinkFlags(rawValue: 1 << 4)
  /// Operational, as RFC 2863 has it.
  package static let running = LinkFlags(rawValue: 1 << 6)
  /// It has a carrier.
  package static let lowerUp = LinkFlags(rawValue: 1 << 16)
  /// It has a carrier and waits for something.
  package static let dormant = LinkFlags(rawValue: 1 << 17)
}

/// RFC 2863's operational states, as `IFLA_OPERSTATE` numbers them (Documentation/networking/operstates.rst).
package enum OperationalState: UInt8, Hashable, Sendable, CaseIterable {
  /// The driver has no such state: as good as up.
  case unknown = 0
  case notPresent = 1
  case down = 2
  case lowerLayerDown = 3
  case testing = 4
  case dormant = 5
  case up = 6
}

/// What sysfs and nl80211 say about the device behind a link.
package struct Device: Hashable, Sendable {
  /// `DEVTYPE` of its `uevent`: `wlan`, `wwan`, `bluetooth`, `bridge`, …
  package var type: String?
  /// Whether it has a `phy80211`, as cfg80211's devices have.
  package var hasPhy80211: Bool
  /// What nl80211 says of it.
  package var wireless: WirelessLink?
  /// The name of the driver that it is bound to.
  package var driver: String?
  /// Of a device by USB that speaks RNDIS, what the interface is for that its driver is bound to.
  package var usbInterface: USBInterface?
  /// Of a ppp link, the name of the driver of the serial line that it runs over.
  package var serialDriver: String?
  /// The indexes of the links directly below it, from its `lower_*` entries.
  package var lowerLinks: [UInt32]

  package init(
    type: String? = nil, hasPhy80211: Bool = false, wireless: WirelessLink? = nil,
    driver: String? = nil, usbInterface: USBInterface? = nil, serialDriver: String? = nil,
    lowerLinks: [UInt32] = []
  ) {
    self.type = type
    self.hasPhy80211 = hasPhy80211
    self.wireless = wireless
    self.driver = driver
    self.usbInterface = usbInterface
    self.serialDriver = serialDriver
    self.lowerLinks = lowerLinks
  }

  /// Whether the access point that it has joined says that its network is paid for by use.
  package var isMetered: Bool { self.wireless?.accessPoint?.isMetered ?? false }

  /// What is known of a device that sysfs does not show.
  package static let unknown = Device()
}

/// What an interface of a device by USB is for, by the codes of usb.org: class, subclass and protocol.
package struct USBInterface: Hashable, Sendable {
  package var interfaceClass: UInt8
  package var subclass: UInt8
  package var protocolCode: UInt8

  package init(_ interfaceClass: UInt8, _ subclass: UInt8, _ protocolCode: UInt8) {
    self.interfaceClass = interfaceClass
    self.subclass = subclass
    self.protocolCode = protocolCode
  }
}
