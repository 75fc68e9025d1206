import CLinux
import Connectivity
import Glibc

extension AttributeRule {
  static let ofLinks: [Int: AttributeRule] = [
    Int(IFLA_IFNAME): .linkName, Int(IFLA_ALT_IFNAME): .linkName,
    Int(IFLA_ADDRESS): .hardwareAddress,
    Int(IFLA_MTU): .same(4), Int(IFLA_LINK): .same(4), Int(IFLA_LINK_NETNSID): .same(4),
    Int(IFLA_MASTER): .same(4), Int(IFLA_OPERSTATE): .same(1), Int(IFLA_CARRIER): .same(1),
    Int(IFLA_CARRIER_DOWN_COUNT): .same(4), Int(IFLA_CARRIER_UP_COUNT): .same(4),
    Int(IFLA_EXT_MASK): .same(4), Int(IFLA_WIRELESS): .empty, Int(IFLA_LINKINFO): .linkInformation,
    Int(IFLA_PROP_LIST): .nested([Int(IFLA_ALT_IFNAME): .linkName]),
    Int(IFLA_PROTINFO): .nested(Self.ofBridgePorts),
  ]

  fileprivate static let ofBridgePorts: [Int: AttributeRule] = [
    Int(IFLA_BRPORT_STATE): .same(1), Int(IFLA_BRPORT_LOCKED): .same(1),
  ]

  /// Returns the known attributes in a link kind's data, or `nil` if the data must be removed.
  fileprivate static func data(of kind: String) -> [Int: AttributeRule]? {
    switch kind {
    case "bond": [Int(IFLA_BOND_ACTIVE_SLAVE): .same(4)]
    case "bridge": [Int(IFLA_BR_VLAN_FILTERING): .same(1)]
    case "gre", "gretap", "erspan", "ip6gre", "ip6gretap", "ip6erspan":
      [
        Int(CLINUX_IFLA_GRE_LOCAL): .address, Int(CLINUX_IFLA_GRE_REMOTE): .address,
        Int(CLINUX_IFLA_GRE_FWMARK): .same(4), Int(CLINUX_IFLA_GRE_COLLECT_METADATA): .empty,
      ]
    case "ipip", "sit", "ip6tnl":
      [
        Int(CLINUX_IFLA_IPTUN_LOCAL): .address, Int(CLINUX_IFLA_IPTUN_REMOTE): .address,
        Int(CLINUX_IFLA_IPTUN_FWMARK): .same(4), Int(CLINUX_IFLA_IPTUN_COLLECT_METADATA): .empty,
      ]
    case "vxlan":
      [
        Int(IFLA_VXLAN_GROUP): .address, Int(IFLA_VXLAN_GROUP6): .address,
        Int(IFLA_VXLAN_LOCAL): .address, Int(IFLA_VXLAN_LOCAL6): .address,
        Int(IFLA_VXLAN_PORT): .same(2),
      ]
    case "geneve":
      [
        Int(IFLA_GENEVE_REMOTE): .address, Int(IFLA_GENEVE_REMOTE6): .address,
        Int(IFLA_GENEVE_PORT): .same(2),
      ]
    default: nil
    }
  }
}

extension Anonymizer {
  /// Replaces `IFLA_LINKINFO`. The link's kind determines the format of the data.
  func linkInformation(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
    var reader = AttributeBytes(bytes)
    var (kind, masterKind) = ("", "")
    while let (type, payload) = reader.next() {
      let word = String(decoding: payload.prefix { $0 != 0 }, as: UTF8.self)
      switch Int(type & 0x3FFF) {
      case Int(IFLA_INFO_KIND): kind = word
      case Int(IFLA_INFO_SLAVE_KIND): masterKind = word
      default: break
      }
    }
    var rules: [Int: AttributeRule] = [
      Int(IFLA_INFO_KIND): .word, Int(IFLA_INFO_SLAVE_KIND): .word,
    ]
    if masterKind == "bridge" {
      rules[Int(IFLA_INFO_SLAVE_DATA)] = .nested(AttributeRule.ofBridgePorts)
    }
    if let data = AttributeRule.data(of: kind) { rules[Int(IFLA_INFO_DATA)] = .nested(data) }
    return self.attributes(bytes, rules)
  }
}
