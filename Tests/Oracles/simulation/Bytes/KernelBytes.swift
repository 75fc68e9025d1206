import CLinux
import Connectivity
import ConnectivityRules
import Glibc
import Netlink

@testable import ConndServer

/// The kernel messages for the model's state.
enum KernelBytes {
  static func message(
    _ type: some BinaryInteger, _ payload: [UInt8], flags: CInt = 0
  ) -> [UInt8] {
    var message = Self.number(UInt32(16 + payload.count))
    message += Self.number(UInt16(type))
    message += Self.number(UInt16(flags))
    // The sequence number and the port are the request's.
    return message + [UInt8](repeating: 0, count: 8) + payload
  }

  static func number(_ number: some FixedWidthInteger) -> [UInt8] {
    withUnsafeBytes(of: number.littleEndian) { Array($0) }
  }

  private static func attribute(_ type: some BinaryInteger, _ payload: [UInt8]) -> [UInt8] {
    AttributeBytes.attribute(UInt16(type), payload)
  }

  private static func attribute(_ type: some BinaryInteger, _ value: UInt32?) -> [UInt8] {
    value.map { Self.attribute(type, Self.number($0)) } ?? []
  }

  private static func attribute(_ type: some BinaryInteger, _ address: IPAddress?) -> [UInt8] {
    address.map { Self.attribute(type, $0.bytes) } ?? []
  }

  private static func family(_ family: AddressFamily) -> UInt8 {
    UInt8(family == .ipv4 ? AF_INET : AF_INET6)
  }

  // MARK: - Objects

  static func link(_ link: Link, type: some BinaryInteger) -> [UInt8] {
    var payload: [UInt8] = [0, 0]
    payload += Self.number(link.hardwareType) + Self.number(link.index)
    payload += Self.number(link.flags.rawValue) + Self.number(link.isNew ? UInt32.max : 0)
    payload += Self.attribute(IFLA_IFNAME, Array(link.name.utf8) + [0])
    if !link.hardwareAddress.isEmpty {
      payload += Self.attribute(IFLA_ADDRESS, link.hardwareAddress)
    }
    payload += Self.attribute(IFLA_OPERSTATE, [link.operationalState.rawValue])
    if let carrier = link.carrier { payload += Self.attribute(IFLA_CARRIER, [carrier ? 1 : 0]) }
    payload += Self.attribute(IFLA_CARRIER_DOWN_COUNT, link.carrierDownCount)
    payload += Self.attribute(IFLA_LINK, link.lower)
    payload += Self.attribute(IFLA_MASTER, link.master)
    if let kind = link.kind {
      var data = Self.attribute(IFLA_BOND_ACTIVE_SLAVE, kind == "bond" ? link.activePort : nil)
      data += Self.attribute(CLINUX_IFLA_GRE_REMOTE, link.outer?.address)
      payload += Self.attribute(
        IFLA_LINKINFO,
        Self.attribute(IFLA_INFO_KIND, Array(kind.utf8) + [0])
          + Self.attribute(IFLA_INFO_DATA, data))
    }
    return Self.message(type, payload)
  }

  static func address(_ address: Address, type: some BinaryInteger) -> [UInt8] {
    let family = address.address.family
    var payload = [
      Self.family(family), UInt8(address.prefixLength),
      UInt8(truncatingIfNeeded: address.flags.rawValue), 0,
    ]
    payload += Self.number(address.link)
    payload += Self.attribute(IFA_ADDRESS, address.address)
    if family == .ipv4 { payload += Self.attribute(IFA_LOCAL, address.address) }
    payload += Self.attribute(IFA_FLAGS, address.flags.rawValue)
    return Self.message(type, payload)
  }

  private static func route(
    _ prefix: IPPrefix, table: UInt32, origin: Int = Int(RTPROT_STATIC),
    type: Int = Int(RTN_UNICAST), _ attributes: [UInt8]
  ) -> [UInt8] {
    var payload = [
      Self.family(prefix.address.family), UInt8(prefix.length), 0, 0, UInt8(clamping: table),
      UInt8(origin), 0, UInt8(type),
    ]
    payload += Self.number(UInt32(0))
    if prefix.length > 0 { payload += Self.attribute(RTA_DST.rawValue, prefix.address) }
    payload += Self.attribute(RTA_TABLE.rawValue, table)
    return payload + attributes
  }

  /// The answer to a lookup.
  static func answer(_ route: Route, to address: IPAddress) -> [UInt8] {
    let type = Int(route.kind == .local ? RTN_LOCAL : RTN_UNICAST)
    return Self.message(
      RTM_NEWROUTE,
      Self.route(
        .block(address, address.family.bitWidth), table: route.table, type: type,
        Self.attribute(RTA_OIF.rawValue, route.outLink)
          + Self.attribute(RTA_GATEWAY.rawValue, route.gateway)
          + Self.attribute(RTA_PREFSRC.rawValue, route.source)))
  }

  /// The entry used by a lookup, or an error if it does not fit into the answer.
  static func entry(_ entry: RouteEntry, _ request: [UInt8]) -> [UInt8] {
    guard let route = entry.route else { return Self.error(EMSGSIZE, request) }
    let legs = entry.legs.flatMap { leg -> [UInt8] in [8, 0, 0, 0] + Self.number(leg) }
    return Self.message(
      RTM_NEWROUTE,
      Self.route(
        route.prefix, table: route.table,
        origin: Int(entry.isKernels ? RTPROT_KERNEL : RTPROT_STATIC),
        type: Int(entry.kind == .local ? RTN_LOCAL : RTN_UNICAST),
        Self.attribute(RTA_PRIORITY.rawValue, route.priority)
          + Self.attribute(RTA_OIF.rawValue, entry.outLink)
          + (legs.isEmpty ? [] : Self.attribute(RTA_MULTIPATH.rawValue, legs))))
  }

  private static func change(
    _ change: RouteChange, type: some BinaryInteger, flags: CInt = 0
  ) -> [UInt8] {
    Self.message(
      type,
      Self.route(
        change.route.prefix, table: change.route.table,
        Self.attribute(RTA_PRIORITY.rawValue, change.route.priority)
          + Self.attribute(RTA_OIF.rawValue, change.outLink)
          + Self.attribute(RTA_GATEWAY.rawValue, change.gateway)), flags: flags)
  }

  static func neighbour(_ neighbour: Neighbour) -> [UInt8] {
    let state =
      neighbour.isFailed
      ? NUD_FAILED : neighbour.hardwareAddress == nil ? NUD_INCOMPLETE : NUD_REACHABLE
    var payload: [UInt8] = [Self.family(neighbour.address.family), 0, 0, 0]
    payload += Self.number(neighbour.link) + Self.number(UInt16(state)) + [0, 0]
    payload += Self.attribute(NDA_DST, neighbour.address)
    if let address = neighbour.hardwareAddress { payload += Self.attribute(NDA_LLADDR, address) }
    return Self.message(RTM_NEWNEIGH, payload)
  }

  static func bridgeEntry(_ entry: BridgeEntry) -> [UInt8] {
    var payload: [UInt8] = [UInt8(AF_BRIDGE), 0, 0, 0]
    payload += Self.number(entry.port) + Self.number(UInt16(NUD_REACHABLE)) + [0, 0]
    payload += Self.attribute(NDA_LLADDR, entry.hardwareAddress)
    return Self.message(RTM_NEWNEIGH, payload + Self.attribute(NDA_MASTER, entry.bridge))
  }

  /// An `inet_diag_msg` and its `tcp_info`.
  static func socket(_ report: SocketReport) -> [UInt8] {
    func milliseconds(_ duration: Duration) -> UInt32 {
      UInt32(Instant(sinceStart: duration).milliseconds)
    }
    var header = [UInt8](repeating: 0, count: MemoryLayout<inet_diag_msg>.size)
    var info = [UInt8](repeating: 0, count: 156)
    func put(_ number: some FixedWidthInteger, at offset: Int, in bytes: inout [UInt8]) {
      let octets = Self.number(number)
      bytes.replaceSubrange(offset..<offset + octets.count, with: octets)
    }
    if let timeout = report.nextTimeout {
      put(UInt8(1), at: 2, in: &header)
      put(milliseconds(timeout), at: 4 + MemoryLayout<inet_diag_sockid>.size, in: &header)
    }
    // idiag_wqueue
    put(
      UInt32(clamping: report.sent - report.progress),
      at: 12 + MemoryLayout<inet_diag_sockid>.size, in: &header)
    // idiag_uid
    put(report.owner ?? 0, at: 16 + MemoryLayout<inet_diag_sockid>.size, in: &header)
    put(UInt8(clamping: report.probes), at: 3, in: &info)
    put(UInt8(clamping: report.timeouts), at: 4, in: &info)
    put(milliseconds(report.timeout) * 1000, at: 8, in: &info)
    put(UInt32(report.hasUnacknowledgedData ? 1 : 0), at: 24, in: &info)
    put(milliseconds(report.dataSilence), at: 52, in: &info)
    put(milliseconds(report.silence), at: 56, in: &info)
    put(milliseconds(report.roundTrip) * 1000, at: 68, in: &info)
    put(UInt32(clamping: report.resent), at: 100, in: &info)
    put(report.progress, at: 120, in: &info)
    put(report.segments, at: 136, in: &info)
    put(report.acknowledgements, at: 140, in: &info)
    var memory = [UInt8](repeating: 0, count: 36)
    put(report.queued, at: 8, in: &memory)
    return Self.message(
      SOCK_DIAG_BY_FAMILY,
      header + Self.attribute(INET_DIAG_INFO, info) + Self.attribute(INET_DIAG_SKMEMINFO, memory))
  }

  static let end = Self.message(NLMSG_DONE, Self.number(Int32(0)), flags: NLM_F_MULTI)

  /// - Parameter request: the refused request.
  static func error(_ code: CInt, _ request: [UInt8]) -> [UInt8] {
    Self.message(
      NLMSG_ERROR, Self.number(Int32(-code)) + request.prefix(16), flags: NLM_F_CAPPED)
  }

  // MARK: - Notifications

  /// The message of an event, or `nil` if the kernel sends none.
  static func notification(_ event: KernelEvent) -> [UInt8]? {
    func rule(_ type: some BinaryInteger, _ family: AddressFamily) -> [UInt8] {
      Self.message(type, [Self.family(family)] + [UInt8](repeating: 0, count: 11))
    }
    func nexthop(_ type: some BinaryInteger, _ id: UInt32) -> [UInt8] {
      Self.message(type, [UInt8](repeating: 0, count: 8) + Self.attribute(NHA_ID, id))
    }
    return switch event {
    case .link(let link): Self.link(link, type: RTM_NEWLINK)
    case .linkRemoved(let link): Self.link(link, type: RTM_DELLINK)
    case .address(let address): Self.address(address, type: RTM_NEWADDR)
    case .addressRemoved(let address): Self.address(address, type: RTM_DELADDR)
    case .route(let change, let isReplaced):
      Self.change(change, type: RTM_NEWROUTE, flags: isReplaced ? NLM_F_REPLACE : 0)
    case .routeRemoved(let change): Self.change(change, type: RTM_DELROUTE)
    case .rule(let family): rule(RTM_NEWRULE, family)
    case .ruleRemoved(let family): rule(RTM_DELRULE, family)
    case .nexthop(let id): nexthop(RTM_NEWNEXTHOP, id)
    case .nexthopRemoved(let id): nexthop(RTM_DELNEXTHOP, id)
    case .neighbour(let neighbour): Self.neighbour(neighbour)
    case .bridgeEntry(let entry): Self.bridgeEntry(entry)
    case .setting(let family): Self.message(RTM_NEWNETCONF, [Self.family(family), 0, 0, 0])
    case .wireless, .signal, .overrun, .malformed: nil
    }
  }
}
