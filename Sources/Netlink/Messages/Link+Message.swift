import CLinux
import Connectivity
import Glibc

extension Link {
  /// Reads RTM_NEWLINK and RTM_DELLINK. Returns `nil` if the message is malformed or not about a
  /// link.
  init?(message: Message) {
    guard
      let index = message.payload.load(Int32.self, at: 4), index > 0,
      let hardwareType = message.payload.load(UInt16.self, at: 2),
      let flags = message.payload.load(UInt32.self, at: 8)
    else { return nil }
    self.init(
      index: UInt32(index), name: "", hardwareType: hardwareType, flags: LinkFlags(rawValue: flags))
    self.isNew = message.payload.load(UInt32.self, at: 12) == .max

    let isOfBridge = message.payload.uint8.map(CInt.init) == AF_BRIDGE
    var information = Bytes()
    var isLowerElsewhere = false
    var attributes = AttributeReader(message.payload, after: MemoryLayout<ifinfomsg>.size)
    while let attribute = attributes.next() {
      let value = attribute.payload
      switch attribute.type {
      case Int(IFLA_IFNAME): self.name = value.string ?? ""
      case Int(IFLA_ADDRESS): self.hardwareAddress = value.array
      case Int(IFLA_MTU): self.mtu = value.uint32
      case Int(IFLA_LINK): self.lower = value.uint32
      case Int(IFLA_LINK_NETNSID): isLowerElsewhere = true
      case Int(IFLA_MASTER): self.master = value.uint32
      case Int(IFLA_OPERSTATE):
        self.operationalState = value.uint8.flatMap(OperationalState.init) ?? .unknown
      case Int(IFLA_CARRIER): self.carrier = value.uint8.map { $0 != 0 }
      case Int(IFLA_CARRIER_DOWN_COUNT): self.carrierDownCount = value.uint32
      case Int(IFLA_LINKINFO): information = value
      case Int(IFLA_PROP_LIST): self.read(properties: value)
      case Int(IFLA_PROTINFO) where isOfBridge: self.bridgePort = BridgePort(value)
      default: break
      }
    }
    guard !attributes.isMalformed, !self.name.isEmpty else { return nil }
    // An index from another namespace means nothing here. Tunnels that are not bound to a link
    // report 0.
    if isLowerElsewhere || self.lower == self.index || self.lower == 0 { self.lower = nil }
    guard self.read(information: information) else { return nil }
    // A tunnel that was created in another namespace still sends in that namespace.
    if isLowerElsewhere { self.outer = nil }
  }

  /// The maximum number of names to keep. udev sets one or two, but a user with CAP_NET_ADMIN can
  /// add up to 64 KiB of names.
  private static let maxAlternativeNames = 32

  /// Reads `IFLA_PROP_LIST`, which holds the alternative names (since Linux 5.5).
  private mutating func read(properties: Bytes) {
    var attributes = AttributeReader(properties)
    while let attribute = attributes.next(),
      self.alternativeNames.count < Self.maxAlternativeNames
    {
      guard attribute.type == Int(IFLA_ALT_IFNAME), let name = attribute.payload.string,
        !name.isEmpty
      else { continue }
      self.alternativeNames.append(name)
    }
  }

  /// Reads `IFLA_LINKINFO`: the kind, and the data of kinds that have lower links.
  private mutating func read(information: Bytes) -> Bool {
    var (data, port, masterKind) = (Bytes(), Bytes(), String?.none)
    var attributes = AttributeReader(information)
    while let attribute = attributes.next() {
      switch attribute.type {
      case Int(IFLA_INFO_KIND): self.kind = attribute.payload.string
      case Int(IFLA_INFO_DATA): data = attribute.payload
      case Int(IFLA_INFO_SLAVE_KIND): masterKind = attribute.payload.string
      case Int(IFLA_INFO_SLAVE_DATA): port = attribute.payload
      default: break
      }
    }
    guard !attributes.isMalformed else { return false }
    if masterKind == "bridge" { self.bridgePort = BridgePort(port) }
    guard let kind = self.kind else { return true }

    // The data of an unknown kind may not even consist of attributes.
    if let tunnel = TunnelAttributes(of: kind) { return self.read(data, tunnel) }
    guard kind == "bond" || kind == "bridge" else { return true }
    attributes = AttributeReader(data)
    while let attribute = attributes.next() {
      let (type, payload) = (attribute.type, attribute.payload)
      if kind == "bond", type == Int(IFLA_BOND_ACTIVE_SLAVE) { self.activePort = payload.uint32 }
      if kind == "bridge", type == Int(IFLA_BR_VLAN_FILTERING) {
        self.filtersVLANs = payload.uint8 == 1
      }
    }
    return !attributes.isMalformed
  }
}

extension BridgePort {
  /// Returns `nil` if the attributes contain no port state.
  fileprivate init?(_ data: Bytes) {
    var (state, isLocked): (UInt8?, Bool) = (nil, false)
    var attributes = AttributeReader(data)
    while let attribute = attributes.next() {
      switch attribute.type {
      case Int(IFLA_BRPORT_STATE): state = attribute.payload.uint8
      case Int(IFLA_BRPORT_LOCKED): isLocked = attribute.payload.uint8 == 1
      default: break
      }
    }
    guard let state else { return nil }
    // BR_STATE_FORWARDING of linux/if_bridge.h is 3.
    self.init(forwards: state == 3, isLocked: isLocked)
  }
}
