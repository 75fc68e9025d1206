import CLinux
import Connectivity
import Glibc

extension Link {
  /// Reads the addresses and the mark that determine the route of a tunnel's packets.
  mutating func read(_ data: Bytes, _ tunnel: TunnelAttributes) -> Bool {
    var (remote, source): (IPAddress?, IPAddress?)
    var (mark, port, takesRoutes): (UInt32, UInt16, Bool) = (0, 0, false)
    var embedded = EmbeddedAttributes()
    var attributes = AttributeReader(data)
    while let attribute = attributes.next() {
      let (type, payload) = (attribute.type, attribute.payload)
      if let address = tunnel.remote[type].flatMap(payload.address), address.isUnicast {
        remote = address
      } else if let address = tunnel.local[type].flatMap(payload.address), address.isUnicast {
        source = address
      } else if type == tunnel.mark {
        mark = payload.uint32 ?? 0
      } else if type == tunnel.port {
        port = payload.bigEndian16 ?? 0
      } else if type == tunnel.collectsMetadata {
        takesRoutes = true
      } else if tunnel.open == .embedded {
        embedded.read(attribute)
      }
    }
    if let remote {
      let udp = tunnel.port == nil ? nil : Transport(UInt8(IPPROTO_UDP), remotePort: port)
      self.outer = Destination(remote, mark: mark, source: source, transport: udp)
    } else if !takesRoutes, let rule = tunnel.rule(embedded) {
      // If the tunnel uses metadata, only the route has the endpoint (RTA_ENCAP).
      self.openEnd = OpenEnd(rule, source: source, mark: mark)
    }
    return !attributes.isMalformed
  }
}

/// The attributes that determine the route of a tunnel's packets, by kind. A lookup names the outer
/// protocol only for UDP, because the kernel's lookup accepts only protocols with ports.
struct TunnelAttributes {
  enum Open { case nextHop, hardwareAddress, embedded }

  var remote: [Int: AddressFamily]
  var local: [Int: AddressFamily] = [:]
  var mark: Int?
  /// The attribute of the remote port, or `nil` if the tunnel does not use UDP.
  var port: Int?
  var collectsMetadata: Int?
  /// How the endpoint is found if none is set.
  var open: Open?

  init?(of kind: String) {
    let family = kind.hasPrefix("ip6") ? AddressFamily.ipv6 : .ipv4
    switch kind {
    case "gre", "gretap", "erspan", "ip6gre", "ip6gretap", "ip6erspan":
      self.remote = [Int(CLINUX_IFLA_GRE_REMOTE): family]
      self.local = [Int(CLINUX_IFLA_GRE_LOCAL): family]
      self.mark = Int(CLINUX_IFLA_GRE_FWMARK)
      self.collectsMetadata = Int(CLINUX_IFLA_GRE_COLLECT_METADATA)
      if kind == "gre" || kind == "ip6gre" { self.open = .hardwareAddress }
    case "ipip", "sit", "ip6tnl":
      self.remote = [Int(CLINUX_IFLA_IPTUN_REMOTE): family]
      self.local = [Int(CLINUX_IFLA_IPTUN_LOCAL): family]
      self.mark = Int(CLINUX_IFLA_IPTUN_FWMARK)
      self.collectsMetadata = Int(CLINUX_IFLA_IPTUN_COLLECT_METADATA)
      self.open = kind == "sit" ? .embedded : .nextHop
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

  fileprivate func rule(_ embedded: EmbeddedAttributes) -> OpenEnd.Rule? {
    guard let family = self.remote.values.first else { return nil }
    return switch self.open {
    case .nextHop: .nextHop(family)
    case .hardwareAddress: .hardwareAddress(family)
    case .embedded: .embedded(embedded.domain)
    case nil: nil
    }
  }
}

/// `IFLA_IPTUN_6RD_*`, which the kernel initialises to 6to4.
private struct EmbeddedAttributes {
  private var prefix: IPAddress?
  private var relay: IPAddress?
  private var prefixLength: UInt16 = 0
  private var relayLength: UInt16 = 0

  mutating func read(_ attribute: Attribute) {
    let payload = attribute.payload
    switch attribute.type {
    case Int(CLINUX_IFLA_IPTUN_6RD_PREFIX): self.prefix = payload.address(.ipv6)
    case Int(CLINUX_IFLA_IPTUN_6RD_RELAY_PREFIX): self.relay = payload.address(.ipv4)
    case Int(CLINUX_IFLA_IPTUN_6RD_PREFIXLEN):
      self.prefixLength = payload.load(UInt16.self, at: 0) ?? 0
    case Int(CLINUX_IFLA_IPTUN_6RD_RELAY_PREFIXLEN):
      self.relayLength = payload.load(UInt16.self, at: 0) ?? 0
    default: break
    }
  }

  var domain: EmbeddedIPv4? {
    guard let prefix, let domain = IPPrefix(prefix, length: Int(self.prefixLength)),
      let relay = IPPrefix(self.relay ?? .unspecified(.ipv4), length: Int(self.relayLength))
    else { return nil }
    return EmbeddedIPv4(prefix: domain, relay: relay)
  }
}

extension IPAddress {
  /// Whether the address belongs to one host: neither unspecified nor multicast (a vxlan's "remote"
  /// may be either).
  fileprivate var isUnicast: Bool {
    guard let first = self.bytes.first else { return false }
    let isMulticast = self.family == .ipv4 ? first >> 4 == 0xE : first == 0xFF
    return !self.isUnspecified && !isMulticast
  }
}
