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
  ]

  /// What is known of a kind's own data: of any other none is passed on.
  fileprivate static func data(of kind: String) -> [Int: AttributeRule]? {
    switch kind {
    case "bond": [Int(IFLA_BOND_ACTIVE_SLAVE): .same(4)]
    case "gre", "gretap", "erspan", "ip6gre", "ip6gretap", "ip6erspan":
      [
        Int(CLINUX_IFLA_GRE_LOCAL): .address, Int(CLINUX_IFLA_GRE_REMOTE): .address,
        Int(CLINUX_IFLA_GRE_FWMARK): .same(4),
      ]
    case "ipip", "sit", "ip6tnl":
      [
        Int(CLINUX_IFLA_IPTUN_LOCAL): .address, Int(CLINUX_IFLA_IPTUN_REMOTE): .address,
        Int(CLINUX_IFLA_IPTUN_FWMARK): .same(4),
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

extension Substitutes {
  /// `IFLA_LINKINFO`: how its data is to be read, the kind says.
  func linkInformation(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
    var reader = AttributeBytes(bytes)
    var kind = ""
    while let (type, payload) = reader.next() {
      guard Int(type & 0x3FFF) == Int(IFLA_INFO_KIND) else { continue }
      kind = String(decoding: payload.prefix { $0 != 0 }, as: UTF8.self)
    }
    var rules: [Int: AttributeRule] = [Int(IFLA_INFO_KIND): .word]
    if let data = AttributeRule.data(of: kind) { rules[Int(IFLA_INFO_DATA)] = .nested(data) }
    return self.attributes(bytes, rules)
  }
}
