import CLinux
import Connectivity
import Glibc

extension Link {
  /// Reads RTM_NEWLINK and RTM_DELLINK; `nil` where the message is not a link's, or malformed.
  init?(message: Message) {
    guard
      let index = message.payload.load(Int32.self, at: 4), index > 0,
      let hardwareType = message.payload.load(UInt16.self, at: 2),
      let flags = message.payload.load(UInt32.self, at: 8)
    else { return nil }
    self.init(
      index: UInt32(index), name: "", hardwareType: hardwareType, flags: LinkFlags(rawValue: flags))
    self.isNew = message.payload.load(UInt32.self, at: 12) == .max

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
      default: break
      }
    }
    guard !attributes.isMalformed, !self.name.isEmpty else { return nil }
    // An index of another namespace means nothing here; tunnels bound to no link say 0.
    if isLowerElsewhere || self.lower == self.index || self.lower == 0 { self.lower = nil }
    guard self.read(information: information) else { return nil }
    // A tunnel that was made in another namespace goes on sending there.
    if isLowerElsewhere { self.outer = nil }
  }

  /// A link has one or two from udev. Whoever may give it more (CAP_NET_ADMIN) gives it up to 64 KiB of them.
  private static let mostAlternativeNames = 32

  /// Reads `IFLA_PROP_LIST`, which holds the alternative names (since 5.5).
  private mutating func read(properties: Bytes) {
    var attributes = AttributeReader(properties)
    while let attribute = attributes.next(),
      self.alternativeNames.count < Self.mostAlternativeNames
    {
      guard attribute.type == Int(IFLA_ALT_IFNAME), let name = attribute.payload.string,
        !name.isEmpty
      else { continue }
      self.alternativeNames.append(name)
    }
  }

  /// Reads `IFLA_LINKINFO`: the kind, and of the kind's own data what leads to the links below.
  private mutating func read(information: Bytes) -> Bool {
    var data = Bytes()
    var attributes = AttributeReader(information)
    while let attribute = attributes.next() {
      switch attribute.type {
      case Int(IFLA_INFO_KIND): self.kind = attribute.payload.string
      case Int(IFLA_INFO_DATA): data = attribute.payload
      default: break
      }
    }
    guard !attributes.isMalformed else { return false }
    guard let kind = self.kind else { return true }

    let outer = OuterAttributes(of: kind)
    // Data of a kind that is not known here need not even be attributes.
    guard kind == "bond" || outer != nil else { return true }
    var (remote, source): (IPAddress?, IPAddress?)
    var (mark, port): (UInt32, UInt16) = (0, 0)
    attributes = AttributeReader(data)
    while let attribute = attributes.next() {
      let (type, payload) = (attribute.type, attribute.payload)
      if kind == "bond", type == Int(IFLA_BOND_ACTIVE_SLAVE) { self.activePort = payload.uint32 }
      guard let outer else { continue }
      if let address = outer.remote[type].flatMap(payload.address), address.isUnicast {
        remote = address
      } else if let address = outer.local[type].flatMap(payload.address), address.isUnicast {
        source = address
      } else if type == outer.mark {
        mark = payload.uint32 ?? 0
      } else if type == outer.port {
        port = payload.bigEndian16 ?? 0
      }
    }
    if let remote {
      let udp = outer?.port == nil ? nil : Transport(UInt8(IPPROTO_UDP), remotePort: port)
      self.outer = Destination(remote, mark: mark, source: source, transport: udp)
    }
    return !attributes.isMalformed
  }
}

/// The attributes by which the packets of a kind of tunnel are routed. The kernel answers a lookup by protocol only for those
/// that have ports.
private struct OuterAttributes {
  var remote: [Int: AddressFamily]
  var local: [Int: AddressFamily] = [:]
  var mark: Int?
  /// The port at the other end; `nil` where the tunnel is not over UDP.
  var port: Int?

  init?(of kind: String) {
    switch kind {
    case "gre", "gretap", "erspan", "ip6gre", "ip6gretap", "ip6erspan":
      let family = kind.hasPrefix("ip6") ? AddressFamily.ipv6 : .ipv4
      self.remote = [Int(CLINUX_IFLA_GRE_REMOTE): family]
      self.local = [Int(CLINUX_IFLA_GRE_LOCAL): family]
      self.mark = Int(CLINUX_IFLA_GRE_FWMARK)
    case "ipip", "sit", "ip6tnl":
      let family = kind.hasPrefix("ip6") ? AddressFamily.ipv6 : .ipv4
      self.remote = [Int(CLINUX_IFLA_IPTUN_REMOTE): family]
      self.local = [Int(CLINUX_IFLA_IPTUN_LOCAL): family]
      self.mark = Int(CLINUX_IFLA_IPTUN_FWMARK)
    case "vxlan":
      self.remote = [Int(IFLA_VXLAN_GROUP): .ipv4, Int(IFLA_VXLAN_GROUP6): .ipv6]
      self.local = [Int(IFLA_VXLAN_LOCAL): .ipv4, Int(IFLA_VXLAN_LOCAL6): .ipv6]
      self.port = Int(IFLA_VXLAN_PORT)
    case "geneve":
      self.remote = [Int(IFLA_GENEVE_REMOTE): .ipv4, Int(IFLA_GENEVE_REMOTE6): .ipv6]
      self.port = Int(IFLA_GENEVE_PORT)
    default: return nil
    }
  }
}

extension IPAddress {
  /// Whether one host can be meant: neither unspecified nor multicast (a vxlan's "remote" may be either).
  fileprivate var isUnicast: Bool {
    guard let first = self.bytes.first else { return false }
    let isMulticast = self.family == .ipv4 ? first >> 4 == 0xE : first == 0xFF
    return !self.isUnspecified && !isMulticast
  }
}
