import CLinux
import Connectivity
import Glibc
import Netlink

/// Replaces netlink messages, both requests and notifications. Only the header of an unknown
/// message remains.
extension Anonymizer {
  /// Returns the messages of a datagram with substitutes.
  func datagram(_ bytes: [UInt8], _ role: SocketRole) -> [UInt8] {
    var (written, rest): ([UInt8], ArraySlice<UInt8>) = ([], bytes[...])
    while rest.count >= Self.headerSize {
      let length = rest.prefix(4).reversed().reduce(0) { $0 << 8 | Int($1) }
      guard length >= Self.headerSize, length <= rest.count else { break }
      let message = self.message(rest.prefix(length), role)
      // The last message of a datagram need not be padded, and a request is never padded.
      rest = rest.dropFirst((length + 3) & ~3)
      written += message
      if !rest.isEmpty { written += [UInt8](repeating: 0, count: -message.count & 3) }
    }
    // Keep the datagram malformed, so that the parser rejects it like the original.
    return rest.isEmpty ? written : written + [0, 0, 0, 0]
  }

  private static let headerSize = 16

  /// Replaces a message. Its family's header contains only numbers, and precedes the attributes.
  private func message(_ bytes: ArraySlice<UInt8>, _ role: SocketRole) -> [UInt8] {
    var header = Array(bytes.prefix(Self.headerSize))
    let payload = bytes.dropFirst(Self.headerSize)
    let type = Int(header[4]) | Int(header[5]) << 8
    let written: [UInt8]
    switch type {
    case Int(NLMSG_ERROR): written = self.end(payload, of: &header, after: 4 + Self.headerSize)
    case Int(NLMSG_DONE): written = self.end(payload, of: &header, after: 4)
    case _ where role == .socketDiagnosis:
      written = self.socketMessage(payload, isRequest: header[6] & UInt8(NLM_F_REQUEST) != 0)
    default:
      if let (size, rules) = Self.format(type, payload, role), payload.count >= size {
        // Headers are padded, too.
        let rest = payload.dropFirst((size + 3) & ~3)
        var own = Array(payload.prefix(size))
        if !rest.isEmpty { own += [UInt8](repeating: 0, count: -size & 3) }
        written = own + self.attributes(rest, rules)
      } else {
        written = []
      }
    }
    let length = UInt32(Self.headerSize + written.count)
    withUnsafeBytes(of: length.littleEndian) { header.replaceSubrange(0..<4, with: $0) }
    return header + written
  }

  /// Replaces the end of a list or an error: a number and the header of the request. The text of
  /// the kernel's explanation is replaced, because it may contain a name.
  private func end(
    _ payload: ArraySlice<UInt8>, of header: inout [UInt8], after size: Int
  ) -> [UInt8] {
    let (capped, explained) = (UInt8(NLM_F_CAPPED >> 8), UInt8(NLM_F_ACK_TLVS >> 8))
    var written = Array(payload.prefix(size))
    let requestSize =
      size == 4 || header[7] & capped != 0 || payload.count < 8
      ? size : 4 + payload.dropFirst(4).prefix(4).reversed().reduce(0) { $0 << 8 | Int($1) }
    if size > 4 { header[7] |= capped }
    guard header[7] & explained != 0, written.count == size else { return written }
    var reader = AttributeBytes(payload.dropFirst((requestSize + 3) & ~3))
    while let (type, _) = reader.next() {
      guard Int(type & 0x3FFF) == Int(NLMSGERR_ATTR_MSG.rawValue) else { continue }
      written += AttributeBytes.attribute(type, Array("refused\0".utf8))
    }
    return written
  }

  /// Returns the size of the family's header, and the rules for its attributes.
  private static func format(
    _ type: Int, _ payload: ArraySlice<UInt8>, _ role: SocketRole
  ) -> (Int, [Int: AttributeRule])? {
    switch role {
    case .wirelessListener, .wirelessRequester:
      guard type >= Int(GENL_ID_CTRL) else { return nil }
      return (4, type == Int(GENL_ID_CTRL) ? AttributeRule.ofFamilies : AttributeRule.ofWireless)
    case .socketDiagnosis: return nil
    case .listener, .requester, .linkDump: break
    }
    let fields = Array(payload.prefix(4))
    guard fields.count == 4, type >= Int(RTM_NEWLINK) else { return nil }
    // Each family has three message types: new, removed and query.
    switch type & ~3 {
    case Int(RTM_NEWLINK): return (16, AttributeRule.ofLinks)
    case Int(RTM_NEWADDR): return (8, AttributeRule.ofAddresses)
    case Int(RTM_NEWROUTE):
      return (12, AttributeRule.ofRoutes(destination: Int(fields[1]), source: Int(fields[2])))
    case Int(RTM_NEWNEIGH): return (12, AttributeRule.ofNeighbours)
    case Int(RTM_NEWRULE):
      return (12, AttributeRule.ofRules(destination: Int(fields[1]), source: Int(fields[2])))
    case Int(RTM_NEWNETCONF): return (1, [:])
    case Int(RTM_NEWNEXTHOP), Int(RTM_NEWNEXTHOPBUCKET): return (8, [Int(NHA_ID): .same(4)])
    default: return nil
    }
  }
}

extension AttributeRule {
  fileprivate static let ofAddresses: [Int: AttributeRule] = [
    Int(IFA_ADDRESS): .address, Int(IFA_LOCAL): .address, Int(IFA_FLAGS): .same(4),
  ]

  fileprivate static let ofNeighbours: [Int: AttributeRule] = [
    Int(NDA_DST): .address, Int(NDA_LLADDR): .hardwareAddress, Int(NDA_MASTER): .same(4),
    Int(NDA_CACHEINFO): .number(of: 16),
  ]

  /// The addresses in `RTA_ENCAP`. `RTA_ENCAP_TYPE` determines the format of `RTA_ENCAP`.
  /// Attributes of other types do not have the length of an address, and are removed.
  private static let outerHeader: [Int: AttributeRule] = [
    Int(CLINUX_LWTUNNEL_IP_DST): .address, Int(CLINUX_LWTUNNEL_IP_SRC): .address,
  ]

  fileprivate static func ofRoutes(destination: Int, source: Int) -> [Int: AttributeRule] {
    let leg: [Int: AttributeRule] = [
      Int(RTA_ENCAP_TYPE.rawValue): .same(2), Int(RTA_ENCAP.rawValue): .nested(Self.outerHeader),
      Int(RTA_GATEWAY.rawValue): .address, Int(RTA_VIA.rawValue): .via,
    ]
    let whole: [Int: AttributeRule] = [
      Int(RTA_DST.rawValue): .prefix(destination), Int(RTA_SRC.rawValue): .prefix(source),
      Int(RTA_PREFSRC.rawValue): .address, Int(RTA_OIF.rawValue): .same(4),
      Int(RTA_IIF.rawValue): .same(4), Int(RTA_PRIORITY.rawValue): .same(4),
      Int(RTA_TABLE.rawValue): .same(4), Int(RTA_NH_ID.rawValue): .same(4),
      Int(RTA_MULTIPATH.rawValue): .legs(leg), Int(RTA_CACHEINFO.rawValue): .same(32),
      Int(RTA_PREF.rawValue): .same(1), Int(RTA_UID.rawValue): .same(4),
      Int(RTA_MARK.rawValue): .same(4), Int(RTA_IP_PROTO.rawValue): .same(1),
      Int(RTA_SPORT.rawValue): .same(2), Int(RTA_DPORT.rawValue): .same(2),
    ]
    return whole.merging(leg) { first, _ in first }
  }

  fileprivate static func ofRules(destination: Int, source: Int) -> [Int: AttributeRule] {
    [
      Int(FRA_DST): .prefix(destination), Int(FRA_SRC): .prefix(source),
      Int(FRA_IIFNAME): .linkName, Int(FRA_OIFNAME): .linkName, Int(FRA_PRIORITY): .same(4),
      Int(FRA_TABLE): .same(4), Int(FRA_GOTO): .same(4), Int(FRA_FWMARK): .same(4),
      Int(FRA_FWMASK): .same(4), Int(FRA_SUPPRESS_PREFIXLEN): .same(4), Int(FRA_L3MDEV): .same(1),
      Int(FRA_UID_RANGE): .same(8), Int(FRA_IP_PROTO): .same(1), Int(FRA_SPORT_RANGE): .same(4),
      Int(FRA_DPORT_RANGE): .same(4), Int(FRA_PROTOCOL): .same(1),
    ]
  }
}
