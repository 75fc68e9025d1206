import CLinux
import Connectivity
import Glibc

/// The classic BPF program of a listener. It passes routes, neighbours, links and settings only if
/// they may affect a watched path (D6). It passes all other messages.
///
/// The program sees only the first message of a datagram. The kernel sends one notification per
/// datagram, but packs many messages into the datagrams of a dump. Therefore no request may use a
/// socket with this filter.
struct NotificationFilter {
  let program: [sock_filter]

  /// Builds a program of at most `limit` instructions (at least 32).
  ///
  /// If the program would be longer, its longest part becomes coarser, repeatedly if needed. A
  /// coarser filter passes more, and never less.
  init(_ watched: FilterSpec, limit: Int = BPFProgram.maxLength) {
    var parts: [any FilterPart] = AddressFamily.allCases.flatMap { family -> [any FilterPart] in
      [
        NeighbourFilter(family, watching: watched.gateways),
        RouteFilter(family, watching: watched.destinations),
      ]
    }
    parts +=
      [BridgeFilter(watching: watched.bridged), SettingFilter(), WirelessEventFilter()]
      as [any FilterPart]
    if let unheard = watched.unheard { parts.append(LinkFilter(unheard)) }
    var program = Self.program(of: parts)
    while program.count > min(limit, BPFProgram.maxLength), Self.coarsen(&parts) {
      program = Self.program(of: parts)
    }
    self.program = program.instructions
  }

  /// Makes the longest reducible part coarser. Returns `false` if no part can be reduced.
  private static func coarsen(_ parts: inout [any FilterPart]) -> Bool {
    for index in parts.indices.sorted(by: { parts[$0].program.count > parts[$1].program.count }) {
      guard let coarser = parts[index].coarser else { continue }
      parts[index] = coarser
      return true
    }
    return false
  }

  // The offsets in a message: nlmsghdr, then rtmsg or ndmsg, which both begin with the family.
  private static let type: UInt32 = 4
  private static let family = UInt32(MemoryLayout<nlmsghdr>.size)

  private static func program(of parts: [any FilterPart]) -> BPFProgram {
    let bridges = parts.compactMap { $0 as? BridgeFilter }
      .map { (family: UInt8(AF_BRIDGE), program: $0.program) }
    let neighbours = self.byFamily(
      self.programs(parts.compactMap { $0 as? NeighbourFilter }) + bridges)
    var routes = BPFProgram()
    routes.add(BPF_LD | BPF_B | BPF_ABS, RouteFilter.prefixLength)
    routes.add(BPF_JMP | BPF_JGT | BPF_K, 1, ifTrue: 1)
    routes.pass()
    routes.add(self.byFamily(self.programs(parts.compactMap { $0 as? RouteFilter })))

    var program = BPFProgram()
    program.add(BPF_LD | BPF_H | BPF_ABS, self.type)
    for events in parts.compactMap({ $0 as? WirelessEventFilter }) { program.add(events.program) }
    for links in parts.compactMap({ $0 as? LinkFilter }) { program.add(links.program) }
    for settings in parts.compactMap({ $0 as? SettingFilter }) { program.add(settings.program) }
    program.add(neighbours, ifEqual: BPFProgram.field(UInt16(RTM_NEWNEIGH)))
    // The removal of a neighbour implies nothing about its next entry, and the kernel's requests to
    // arpd are irrelevant. A removed setting means only that its link is gone.
    program.add(BPF_JMP | BPF_JEQ | BPF_K, BPFProgram.field(UInt16(RTM_DELNEIGH)), ifTrue: 2)
    program.add(BPF_JMP | BPF_JEQ | BPF_K, BPFProgram.field(UInt16(RTM_DELNETCONF)), ifTrue: 1)
    program.add(BPF_JMP | BPF_JEQ | BPF_K, BPFProgram.field(UInt16(RTM_GETNEIGH)), ifFalse: 1)
    program.drop()
    program.add(BPF_JMP | BPF_JEQ | BPF_K, BPFProgram.field(UInt16(RTM_NEWROUTE)), ifTrue: 2)
    program.add(BPF_JMP | BPF_JEQ | BPF_K, BPFProgram.field(UInt16(RTM_DELROUTE)), ifTrue: 1)
    program.pass()
    program.add(routes)
    return program
  }

  private static func programs(
    _ parts: [some FamilyFilterPart]
  ) -> [(family: UInt8, program: BPFProgram)] {
    parts.map { ($0.family.netlinkNumber, $0.program) }
  }

  /// Branches by the message's family, and drops messages of families without a program.
  private static func byFamily(_ parts: [(family: UInt8, program: BPFProgram)]) -> BPFProgram {
    var program = BPFProgram()
    program.add(BPF_LD | BPF_B | BPF_ABS, self.family)
    for part in parts { program.add(part.program, ifEqual: UInt32(part.family)) }
    program.drop()
    return program
  }
}

/// The program of ``NotificationFilter`` for messages of one kind.
protocol FilterPart {
  var program: BPFProgram { get }
  /// A shorter program that passes the same messages and more, or `nil` if none exists.
  var coarser: Self? { get }
}

/// The program of ``NotificationFilter`` for messages of one kind and one family. It always
/// returns.
protocol FamilyFilterPart: FilterPart {
  var family: AddressFamily { get }
}
