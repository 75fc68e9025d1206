import CLinux
import Connectivity

/// The part of ``NotificationFilter`` for links and their addresses. Drops messages that concern
/// only links that no path uses (T3).
///
/// On a machine with containers, links come and go all the time, with nine messages each. These
/// messages must not wake connd (D7). An address with more than link scope still passes, because it
/// may be the source on another link (RFC 6724, rule 2). An ifb passes, because tc may redirect any
/// link's traffic to it.
struct LinkFilter: FilterPart {
  /// Expects the message's type in A. For other types, leaves A unchanged.
  let program: BPFProgram
  private let passesAll: Bool

  init(_ unheard: UnheardLinks) {
    self.passesAll = false
    self.program = Self.program(unheard)
  }

  /// Creates a part that passes everything.
  private init() {
    self.passesAll = true
    self.program = BPFProgram()
  }

  var coarser: LinkFilter? { self.passesAll ? nil : LinkFilter() }

  // The offsets in a message: nlmsghdr, then ifinfomsg or ifaddrmsg, which have the index at the
  // same offset.
  private static let family = UInt32(MemoryLayout<nlmsghdr>.size)
  private static let scope = Self.family + 3
  private static let link = Self.family + 4
  private static let attributes = Self.family + UInt32(MemoryLayout<ifinfomsg>.size)

  private static func program(_ unheard: UnheardLinks) -> BPFProgram {
    func types(_ types: Int...) -> [UInt32] { types.map { BPFProgram.field(UInt16($0)) } }

    var links = self.passHeard(unheard)
    links.pass(
      ifAttribute: UInt32(IFLA_INFO_KIND), in: UInt32(IFLA_LINKINFO), from: self.attributes,
      is: Array(Link.redirectionKind.utf8) + [0])
    links.findAttribute(UInt32(IFLA_MASTER), from: self.attributes, passIfNone: false)
    links.add(BPF_LD | BPF_W | BPF_IND, UInt32(MemoryLayout<nlattr>.size))
    links.pass(ifOneOf: unheard.masters.map { BPFProgram.field($0) })
    links.drop()

    var addresses = BPFProgram()
    addresses.add(BPF_LD | BPF_B | BPF_ABS, self.family)
    addresses.add(BPF_JMP | BPF_JEQ | BPF_K, UInt32(AF_INET6), ifTrue: 1)
    addresses.pass()
    addresses.add(BPF_LD | BPF_B | BPF_ABS, self.scope)
    addresses.add(BPF_JMP | BPF_JEQ | BPF_K, UInt32(RT_SCOPE_LINK.rawValue), ifTrue: 1)
    addresses.pass()
    addresses.add(self.passHeard(unheard))
    addresses.drop()

    var program = BPFProgram()
    program.add(links, ifOneOf: types(Int(RTM_NEWLINK), Int(RTM_DELLINK)))
    program.add(addresses, ifOneOf: types(Int(RTM_NEWADDR), Int(RTM_DELADDR)))
    return program
  }

  /// Passes the message unless its link is one of the unheard links.
  private static func passHeard(_ unheard: UnheardLinks) -> BPFProgram {
    var program = BPFProgram()
    program.loadNumber(at: self.link)
    program.add(BPF_JMP | BPF_JGT | BPF_K, unheard.above, ifTrue: 1)
    program.pass()
    program.pass(ifOneOf: unheard.except)
    return program
  }
}
