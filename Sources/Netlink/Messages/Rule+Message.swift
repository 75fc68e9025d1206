import CLinux
import Connectivity
import Glibc

extension Rule {
  /// Reads RTM_NEWRULE. Returns `nil` if the message is malformed or of another family than IPv4
  /// and IPv6.
  init?(message: Message) {
    guard
      let family = message.payload.uint8.flatMap(AddressFamily.init(netlink:)),
      let table = message.payload.load(UInt8.self, at: 4),
      let action = message.payload.load(UInt8.self, at: 7),
      let flags = message.payload.load(UInt32.self, at: 8)
    else { return nil }
    self.init(family: family, priority: 0)

    var fields = Fields(header: message.payload, family: family)
    var number = UInt32(table)
    var target: UInt32 = 0
    var isOfVRF = false
    var attributes = AttributeReader(message.payload, after: MemoryLayout<fib_rule_hdr>.size)
    while let attribute = attributes.next() {
      let value = attribute.payload
      switch attribute.type {
      case Int(FRA_PRIORITY): self.priority = value.uint32 ?? 0
      case Int(FRA_TABLE): number = value.uint32 ?? number
      case Int(FRA_GOTO): target = value.uint32 ?? 0
      // The kernel sends ~0 for a missing value.
      case Int(FRA_SUPPRESS_PREFIXLEN):
        self.suppressPrefixLength = value.uint32.flatMap { $0 == .max ? nil : $0 }
      case Int(FRA_L3MDEV): isOfVRF = value.uint8 == 1
      default: fields.read(attribute)
      }
    }
    guard !attributes.isMalformed else { return nil }
    self.action =
      switch Int(action) {
      case Int(FR_ACT_TO_TBL): .lookup
      case Int(FR_ACT_GOTO): .goto(target)
      case Int(FR_ACT_NOP): .nothing
      case Int(FR_ACT_BLACKHOLE): .blackhole
      case Int(FR_ACT_UNREACHABLE): .unreachable
      case Int(FR_ACT_PROHIBIT): .prohibit
      default: .other(action)
      }
    if case .lookup = self.action, !isOfVRF { self.table = number }
    let isInverted = flags & UInt32(FIB_RULE_INVERT) != 0
    self.selector = fields.text(isInverted: isInverted)
    self.selection = isOfVRF ? .other : fields.selection(isInverted: isInverted)
  }
}

/// The selectors of a rule, collected for its text.
private struct Fields {
  private let family: AddressFamily
  private let sourceLength: Int
  private let destinationLength: Int
  private let serviceType: UInt8
  private var source: IPAddress?
  private var destination: IPAddress?
  private var mark: UInt32?
  private var mask: UInt32?
  private var rest: [Int: String] = [:]

  init(header: Bytes, family: AddressFamily) {
    self.family = family
    self.destinationLength = header.load(UInt8.self, at: 1).map(Int.init) ?? 0
    self.sourceLength = header.load(UInt8.self, at: 2).map(Int.init) ?? 0
    self.serviceType = header.load(UInt8.self, at: 3) ?? 0
  }

  mutating func read(_ attribute: Attribute) {
    let value = attribute.payload
    let text: String? =
      switch attribute.type {
      case Int(FRA_IIFNAME): value.string.map { "iif \($0)" }
      case Int(FRA_OIFNAME): value.string.map { "oif \($0)" }
      case Int(FRA_IP_PROTO): value.uint8.map { "ipproto \(Self.name(ofProtocol: $0))" }
      case Int(FRA_UID_RANGE): Self.range("uidrange", UInt32.self, value)
      case Int(FRA_SPORT_RANGE): Self.range("sport", UInt16.self, value)
      case Int(FRA_DPORT_RANGE): Self.range("dport", UInt16.self, value)
      default: nil
      }
    self.rest[attribute.type] = text
    switch attribute.type {
    case Int(FRA_SRC): self.source = value.address(self.family)
    case Int(FRA_DST): self.destination = value.address(self.family)
    case Int(FRA_FWMARK): self.mark = value.uint32
    case Int(FRA_FWMASK): self.mask = value.uint32
    default: break
    }
  }

  /// Returns the name that `ip rule` finds in /etc/protocols, for protocols common in rules.
  private static func name(ofProtocol number: UInt8) -> String {
    switch CInt(number) {
    case CInt(IPPROTO_ICMP): "icmp"
    case CInt(IPPROTO_TCP): "tcp"
    case CInt(IPPROTO_UDP): "udp"
    case CInt(IPPROTO_ICMPV6): "ipv6-icmp"
    default: String(number)
    }
  }

  private static func range<Number: FixedWidthInteger & BitwiseCopyable>(
    _ word: String, _: Number.Type, _ value: Bytes
  ) -> String? {
    guard
      let first = value.load(Number.self, at: 0),
      let last = value.load(Number.self, at: MemoryLayout<Number>.size)
    else { return nil }
    return first == last && word != "uidrange" ? "\(word) \(first)" : "\(word) \(first)-\(last)"
  }

  func selection(isInverted: Bool) -> Rule.Selection {
    guard self.sourceLength == 0, self.destinationLength == 0, self.serviceType == 0,
      self.rest.isEmpty
    else { return .other }
    let mask = self.mask ?? 0
    if let mark = self.mark, mark != 0 || mask != 0 { return .mark(mark, isInverted: isInverted) }
    return isInverted ? .other : .all
  }

  /// Returns the text in the order of `ip rule`.
  func text(isInverted: Bool) -> String {
    var parts = [(isInverted ? "not " : "") + "from \(self.block(self.source, self.sourceLength))"]
    if self.destinationLength > 0 {
      parts.append("to \(self.block(self.destination, self.destinationLength))")
    }
    if self.serviceType != 0 { parts.append("tos 0x" + String(self.serviceType, radix: 16)) }
    let mask = self.mask ?? 0
    if let mark = self.mark, mark != 0 || mask != 0 {
      let suffix = mask == .max || mask == 0 ? "" : "/0x" + String(mask, radix: 16)
      parts.append("fwmark 0x" + String(mark, radix: 16) + suffix)
    }
    for key in [
      FRA_IIFNAME, FRA_OIFNAME, FRA_UID_RANGE, FRA_IP_PROTO, FRA_SPORT_RANGE, FRA_DPORT_RANGE,
    ] {
      if let word = self.rest[Int(key)] { parts.append(word) }
    }
    return parts.joined(separator: " ")
  }

  private func block(_ address: IPAddress?, _ length: Int) -> String {
    guard let address, length > 0 else { return "all" }
    return length == self.family.bitWidth ? "\(address)" : "\(address)/\(length)"
  }
}
