import CLinux

/// The part of ``NotificationFilter`` for RTM_NEWNETCONF. Passes only the setting that lookups
/// depend on, `ignore_routes_with_linkdown`. (Lookups also depend on `rp_filter`. But an
/// established connection keeps the route that its socket caches until a route changes.)
///
/// A new link announces all of its settings together, which is not a change.
struct SettingFilter: FilterPart {
  /// Expects the message's type in A. For other types, leaves A unchanged.
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

  /// The offset in a message: nlmsghdr, then netconfmsg, which is one byte, then the attributes.
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
