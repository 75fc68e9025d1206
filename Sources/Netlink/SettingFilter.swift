import CLinux

/// The filter's part for RTM_NEWNETCONF: passes what tells of the one setting that lookups depend on, which is
/// `ignore_routes_with_linkdown`. (They depend on `rp_filter`, too, but a connection that was made goes on by the route that its
/// socket remembers until the next change of a route.)
///
/// A new link announces all of its settings at once. That is no change of one.
struct SettingFilter: FilterPart {
  /// To be run with A = the message's type; where that is none of its own, it leaves A as it was.
  let program: BPFProgram
  private let passesAll: Bool

  init() {
    self.init(passesAll: false)
  }

  private init(passesAll: Bool) {
    self.passesAll = passesAll
    self.program = passesAll ? BPFProgram() : Self.program()
  }

  var coarser: SettingFilter? { self.passesAll ? nil : SettingFilter(passesAll: true) }

  /// Offset from the start of a message: nlmsghdr, then netconfmsg, which is one byte, then the attributes.
  private static let attributes = UInt32(MemoryLayout<nlmsghdr>.size) + 4

  private static func program() -> BPFProgram {
    var settings = BPFProgram()
    settings.findAttribute(
      UInt32(NETCONFA_IGNORE_ROUTES_WITH_LINKDOWN), from: self.attributes, passIfNone: false)
    settings.findAttribute(UInt32(NETCONFA_FORWARDING), from: self.attributes, passIfNone: true)
    settings.drop()

    var program = BPFProgram()
    program.add(settings, ifEqual: BPFProgram.field(UInt16(RTM_NEWNETCONF)))
    return program
  }
}
