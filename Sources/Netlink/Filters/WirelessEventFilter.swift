import CLinux

/// The part of ``NotificationFilter`` for the events of Wi-Fi drivers, which arrive as RTM_NEWLINK
/// without link data. A kernel with the wireless extensions (CONFIG_CFG80211_WEXT) sends such an
/// event after each scan. nl80211 reports the same events in more detail.
///
/// Implements rule D7.
struct WirelessEventFilter: FilterPart {
  /// Expects the message's type in A, and leaves A unchanged unless it drops the message.
  let program: BPFProgram
  private let passesAll: Bool

  init() {
    self.passesAll = false
    self.program = Self.program()
  }

  /// Creates a part that passes everything.
  private init(passesAll: Bool) {
    self.passesAll = passesAll
    self.program = BPFProgram()
  }

  var coarser: WirelessEventFilter? { self.passesAll ? nil : WirelessEventFilter(passesAll: true) }

  // The offsets in a message: nlmsghdr, then ifinfomsg, then the attributes.
  private static let type: UInt32 = 4
  private static let attributes = UInt32(
    MemoryLayout<nlmsghdr>.size + MemoryLayout<ifinfomsg>.size)

  private static func program() -> BPFProgram {
    var event = BPFProgram()
    event.add(BPF_LDX | BPF_W | BPF_IMM, UInt32(IFLA_WIRELESS))
    event.add(BPF_LD | BPF_W | BPF_IMM, self.attributes)
    event.add(BPF_LD | BPF_W | BPF_ABS, UInt32(bitPattern: SKF_AD_OFF + SKF_AD_NLATTR))
    event.add(BPF_JMP | BPF_JEQ | BPF_K, 0, ifTrue: 1)
    event.drop()
    event.add(BPF_LD | BPF_H | BPF_ABS, self.type)

    var program = BPFProgram()
    program.add(
      BPF_JMP | BPF_JEQ | BPF_K, BPFProgram.field(UInt16(RTM_NEWLINK)),
      ifFalse: UInt8(event.count))
    program.add(event)
    return program
  }
}
