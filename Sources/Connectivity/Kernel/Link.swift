/// A network link as rtnetlink describes it.
package struct Link: Hashable, Sendable {
  /// The identifier of the link while it exists in its namespace.
  package var index: UInt32
  /// The name: at most 15 bytes, which need not be printable. It can change at any time.
  package var name: String
  /// Alternative names of the link (`ip link property add … altname`), of up to 127 bytes each,
  /// oldest first.
  package var alternativeNames: [String] = []
  /// `IFLA_INFO_KIND`: `vlan`, `veth`, `tun`, …; `nil` for most hardware.
  package var kind: String?
  /// The ARPHRD type.
  package var hardwareType: UInt16
  package var flags: LinkFlags
  package var operationalState: OperationalState
  /// `IFLA_CARRIER`, or `nil` if the kernel did not report it.
  package var carrier: Bool?
  /// How often the link has lost its carrier since its creation (`IFLA_CARRIER_DOWN_COUNT`), or
  /// `nil` if the kernel did not report it.
  package var carrierDownCount: UInt32?
  /// `IFLA_LINK`, if it is a link of this namespace: the lower link of a vlan, or a veth's peer.
  package var lower: UInt32?
  /// The bridge, bond, team or VRF that this link is a port of.
  package var master: UInt32?
  /// The port that an active-backup bond uses for sending.
  package var activePort: UInt32?
  /// The destination of a tunnel's own packets (gre, ipip, sit, vxlan, …): its remote endpoint, and
  /// all properties that affect their route. `nil` if the endpoint is not fixed or not known.
  package var outer: Destination?
  /// How a tunnel finds the remote endpoint of each packet, or `nil` for a tunnel with one fixed
  /// endpoint and for other links.
  package var openEnd: OpenEnd?
  /// How a bridge treats the frames of this port, or `nil` if the link is not a bridge port.
  package var bridgePort: BridgePort?
  /// Whether a bridge keeps the MAC addresses that it learns per VLAN (`IFLA_BR_VLAN_FILTERING`).
  package var filtersVLANs = false
  /// The MTU in bytes.
  package var mtu: UInt32?
  /// The MAC address, or empty if the link has none.
  package var hardwareAddress: [UInt8]
  /// Whether the message announces a link that was just created, or moved into this namespace, so
  /// that it has neither addresses nor routes yet. (`ifi_change` is all ones, as register_netdevice
  /// and rtnl_configure_link send it.)
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

  /// All names of the link, its primary name first.
  package var names: [String] { [self.name] + self.alternativeNames }

  /// Whether tc may redirect the traffic of other links to this link, as shapers do. The kernel
  /// reveals that only with CAP_NET_ADMIN.
  package var mayReceiveRedirections: Bool { self.kind == Self.redirectionKind }
  package static let redirectionKind = "ifb"
}

/// How a bridge treats the frames of one of its ports (`IFLA_BRPORT_*`).
package struct BridgePort: Hashable, Sendable {
  /// Whether frames pass. No frames pass while the port is disabled, listening, learning or
  /// blocking (IEEE 802.1D).
  package var forwards: Bool
  /// Whether only frames from known MAC addresses pass (802.1X).
  package var isLocked: Bool

  package init(forwards: Bool = true, isLocked: Bool = false) {
    self.forwards = forwards
    self.isLocked = isLocked
  }
}

/// `IFF_*` of netdevice(7), as far as needed.
package struct LinkFlags: OptionSet, Hashable, Sendable {
  package var rawValue: UInt32

  package init(rawValue: UInt32) { self.rawValue = rawValue }

  /// Administratively up.
  package static let up = LinkFlags(rawValue: 1 << 0)
  package static let loopback = LinkFlags(rawValue: 1 << 3)
  package static let pointToPoint = LinkFlags(rawValue: 1 << 4)
  /// Operational, as defined by RFC 2863.
  package static let running = LinkFlags(rawValue: 1 << 6)
  /// The link has carrier.
  package static let lowerUp = LinkFlags(rawValue: 1 << 16)
  /// The link has carrier and waits for something.
  package static let dormant = LinkFlags(rawValue: 1 << 17)
}

/// The operational states of RFC 2863, with the numbers of `IFLA_OPERSTATE`
/// (Documentation/networking/operstates.rst).
package enum OperationalState: UInt8, Hashable, Sendable, CaseIterable {
  /// The driver does not report a state. Treated as up.
  case unknown = 0
  case notPresent = 1
  case down = 2
  case lowerLayerDown = 3
  case testing = 4
  case dormant = 5
  case up = 6
}

/// The data of sysfs and nl80211 about the device behind a link.
package struct Device: Hashable, Sendable {
  /// `DEVTYPE` of the device's `uevent`: `wlan`, `wwan`, `bridge`, …
  package var type: String?
  /// Whether the device has a `phy80211`, like all devices of cfg80211.
  package var hasPhy80211: Bool
  /// The data of nl80211.
  package var wireless: WirelessLink?
  /// The name of the device's driver.
  package var driver: String?
  /// The USB interface of the driver, for a USB device that uses RNDIS.
  package var usbInterface: USBInterface?
  /// The driver of the serial line below, for a ppp link.
  package var serialDriver: String?
  /// The indexes of the links directly below the device, from its `lower_*` entries.
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

  /// Whether the device's access point announces a metered network.
  package var isMetered: Bool { self.wireless?.accessPoint?.isMetered ?? false }

  /// The device of a link that sysfs does not show.
  package static let unknown = Device()
}

/// The purpose of a USB interface, in usb.org's codes for class, subclass and protocol.
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
