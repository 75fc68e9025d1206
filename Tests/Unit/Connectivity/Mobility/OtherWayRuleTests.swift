import Connectivity
import Testing

@testable import ConnectivityRules

@Suite("The other way")
struct OtherWayRuleTests {
  private static func path(
    _ index: UInt32, _ name: String, _ medium: NetworkMedium, table: UInt32 = 254
  ) -> KernelPath {
    KernelPath(
      status: .satisfied, chain: [KernelPath.Link(index: index, name: name)], medium: medium,
      source: "198.51.100.7", gateway: "198.51.100.1", table: table)
  }

  private static let wifi = OtherWayRule.Candidate(
    Self.path(2, "wlan0", .wifi), prefixLength: 0, metric: 600)
  private static let modem = OtherWayRule.Candidate(
    Self.path(3, "wwan0", .cellular), prefixLength: 0, metric: 700)

  /// Changes a way.
  typealias Edit = @Sendable (inout OtherWayRule.Candidate) -> Void
  private static let nothing: Edit = { _ in }

  private static func choice(
    _ leave: Edit = nothing, _ take: Edit = nothing,
    assist: Bool? = nil
  ) -> OtherWay {
    var (wifi, modem) = (Self.wifi, Self.modem)
    leave(&wifi)
    take(&modem)
    return OtherWayRule(leaving: wifi, assist: assist).choice(among: [modem])
  }

  @Test("W5 both paths lead by default routes → the other way is allowed")
  func allowed() {
    let candidate = Self.choice()
    #expect(candidate.isAllowed && candidate.whyNot == nil && candidate.path?.interface == "wwan0")
    #expect(Self.choice { $0.path.table = 253 }.isAllowed)
    #expect(Self.choice(Self.nothing) { $0.path.table = 100 }.isAllowed)
  }

  private static let refusals: [(OtherWay.Reason, leave: Edit, take: Edit)] = [
    (.noDefaultPath, { $0.path.status = .requiresConnection }, nothing),
    (.noDefaultPath, { $0.path = .unknown }, nothing),
    (.tunnel, { $0.isTunnelled = true }, nothing),
    (.tunnel, { $0.path.medium = .tunnel }, nothing),
    (.tunnel, { $0.path.medium = .unknown }, nothing),
    // A host route, and OpenVPN's two halves of the internet.
    (.ownRoute, { $0.prefixLength = 32 }, nothing),
    (.ownRoute, { $0.prefixLength = 1 }, nothing),
    (.ownRoute, { $0.prefixLength = nil }, nothing),
    (.ownRoute, { $0.path.table = 51820 }, nothing),
    (.ownRoute, { $0.path.table = nil }, nothing),
    (.noOtherPath, nothing, { $0.path.status = .requiresConnection }),
    // The kernel invents a route of table 0 for bound IPv4 traffic. No entry has it.
    (.noOtherPath, nothing, { $0.prefixLength = nil }),
    (.noOtherPath, nothing, { $0.prefixLength = 8 }),
    (.noOtherPath, nothing, { $0.isTunnelled = true }),
    // A VLAN on the same card limps as the card does.
    (
      .noOtherPath, nothing,
      { $0.path.chain.append(KernelPath.Link(index: 2, name: "wlan0")) }
    ),
    (.strictFilter, nothing, { $0.dropsAnswers = true }),
    (.roaming, nothing, { $0.isRoaming = true }),
    (.constrained, nothing, { $0.path.constraint = .constrained }),
    (.expensive, nothing, { $0.path.costsMoney = true }),
    (.expensive, nothing, { $0.path.costsMoney = nil }),
  ]

  @Test("W5 W6 each obstacle forbids the other way, and is named", arguments: Self.refusals)
  func refused(row: (reason: OtherWay.Reason, leave: Edit, take: Edit)) {
    let candidate = Self.choice(row.leave, row.take)
    #expect(candidate.whyNot == row.reason && !candidate.isAllowed)
  }

  private static func objection(
    _ leave: Edit = nothing, _ take: Edit = nothing, assist: Bool? = nil, toDefault: Bool = false
  ) -> OtherWay.Reason? {
    var (wifi, modem) = (Self.wifi, Self.modem)
    leave(&wifi)
    take(&modem)
    return OtherWayRule(leaving: wifi, assist: assist).objection(toUsing: toDefault ? wifi : modem)
  }

  @Test("W5 W6 each obstacle forbids the use beside the default path", arguments: Self.refusals)
  func beside(row: (reason: OtherWay.Reason, leave: Edit, take: Edit)) {
    var modem = Self.modem
    row.take(&modem)
    // The links of the default path may always be used.
    let isDefault = modem.path.chain.contains(KernelPath.Link(index: 2, name: "wlan0"))
    #expect(Self.objection(row.leave, row.take) == (isDefault ? nil : row.reason))
  }

  @Test("W6 the default path costs money or roams, or assist is off → its own links may be used")
  func besideItself() {
    #expect(Self.objection(toDefault: true) == nil)
    #expect(Self.objection({ $0.path.costsMoney = true }, assist: false, toDefault: true) == nil)
    #expect(Self.objection({ $0.isRoaming = true }, toDefault: true) == nil)
    #expect(Self.objection({ $0.path.table = 51820 }, assist: false, toDefault: true) == .ownRoute)
  }

  @Test("W6 the default path is lost → a cost, roaming, or assist off still forbids a link")
  func besideLost() {
    let lost: Edit = { $0.path.status = .requiresConnection }
    #expect(Self.objection(lost, assist: false) == .switchedOff)
    #expect(Self.objection(lost, { $0.path.costsMoney = true }) == .expensive)
    #expect(Self.objection(lost, { $0.path.costsMoney = true }, assist: true) == .noDefaultPath)
    #expect(Self.objection(lost, { $0.isRoaming = true }, assist: true) == .roaming)
  }

  @Test("W6 the user allows costs → an expensive path is allowed, but not a roaming one")
  func assisted() {
    #expect(
      Self.choice(Self.nothing, { $0.path.costsMoney = true }, assist: true).isAllowed)
    #expect(
      Self.choice(Self.nothing, { $0.path.costsMoney = nil }, assist: true).isAllowed)
    let refused: [(OtherWay.Reason, Edit)] = [
      (.roaming, { $0.isRoaming = true }), (.constrained, { $0.path.constraint = .constrained }),
    ]
    for (reason, change) in refused {
      #expect(Self.choice(Self.nothing, change, assist: true).whyNot == reason)
    }
  }

  @Test("W6 the user forbids other ways → none is allowed")
  func forbidden() {
    #expect(Self.choice(assist: false).whyNot == .switchedOff)
  }

  @Test("W6 several other ways → an allowed one, the cheapest, and then the lowest metric")
  func chosen() {
    var (cable, phone) = (Self.wifi, Self.modem)
    cable.path = Self.path(4, "eth0", .wired)
    cable.metric = 900
    phone.path = Self.path(5, "usb0", .wired)
    phone.metric = 100
    let rule = OtherWayRule(leaving: Self.wifi)
    #expect(rule.choice(among: [cable, phone]).path?.interface == "usb0")
    phone.path.costsMoney = true
    #expect(rule.choice(among: [phone, cable]).path?.interface == "eth0")
    let generous = OtherWayRule(leaving: Self.wifi, assist: true)
    #expect(generous.choice(among: [phone, cable]).path?.interface == "eth0")
    cable.dropsAnswers = true
    #expect(generous.choice(among: [phone, cable]).path?.interface == "usb0")
    #expect(rule.choice(among: [phone, cable]).whyNot == .strictFilter)
    #expect(rule.choice(among: []).whyNot == .noOtherPath)
  }

  @Test("W5 traffic that is bound, marked or not global keeps its way")
  func destinations() {
    let global: IPAddress = "1.1.1.1"
    #expect(OtherWayRule.objection(to: Destination(global)) == nil)
    #expect(OtherWayRule.objection(to: Destination(global, mark: 7)) == .marked)
    #expect(OtherWayRule.objection(to: Destination(global, outLink: 2)) == .bound)
    #expect(OtherWayRule.objection(to: Destination("10.1.2.3")) == .notGlobal)
  }

  @Test(
    "W5 an address of which other networks may have another owner is not global",
    arguments: [
      ("1.1.1.1", true), ("223.255.255.254", true), ("100.63.0.1", true), ("100.64.0.1", false),
      ("10.0.0.1", false), ("172.31.0.1", false), ("172.32.0.1", true), ("192.168.1.1", false),
      ("169.254.1.1", false), ("127.0.0.1", false), ("224.0.0.1", false), ("240.0.0.1", false),
      ("198.19.0.1", false), ("203.0.113.1", false), ("0.0.0.0", false),
      ("2606:4700::1111", true), ("fd00::1", false), ("fe80::1", false), ("ff02::1", false),
      ("64:ff9b::1", false), ("2001:db8::1", false), ("2001:4860::8888", true), ("::1", false),
    ])
  func global(row: (address: String, isGlobal: Bool)) throws {
    #expect(try #require(IPAddress(row.address)).isGlobal == row.isGlobal)
  }
}
