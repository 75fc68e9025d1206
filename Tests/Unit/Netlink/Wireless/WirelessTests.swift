import CLinux
import Connectivity
import Testing

@testable import Netlink

@Suite("Wi-Fi by nl80211")
struct WirelessTests {
  // MARK: - Notifications

  private func change(_ bytes: [UInt8]) throws -> WirelessChange? {
    try withMessage(bytes) { WirelessChange(message: $0) }
  }

  @Test("A station joins and leaves a network, and a link is created")
  func changes() throws {
    #expect(
      try self.change(WirelessCaptures.connected.bytes) == WirelessChange(.joined, on: 17))
    #expect(
      try self.change(WirelessCaptures.disconnected.bytes) == WirelessChange(.left, on: 17))
    #expect(try self.change(WirelessCaptures.made.bytes) == WirelessChange(.made, on: 18))
  }

  @Test("Q1 beacons are lost, the signal falls or rises, or 50 frames are lost → reported")
  func signals() throws {
    func signal(_ bytes: [UInt8]) throws -> SignalChange? {
      try withMessage(bytes) { SignalChange(message: $0) }
    }
    func message(_ type: UInt32, _ value: UInt32) -> [UInt8] {
      var event = MessageBuilder(type: 0, header: [])
      event.put(Int(type), raw(value))
      var message = self.builder(NL80211_CMD_NOTIFY_CQM)
      message.put(Int(NL80211_ATTR_IFINDEX.rawValue), raw(UInt32(17)))
      message.put(Int(NL80211_ATTR_CQM.rawValue), Array(event.bytes.dropFirst(16)))
      return message.bytes
    }
    #expect(
      try signal(WirelessCaptures.beaconsLost.bytes) == SignalChange(.framesLost, on: 17))
    let rssi = NL80211_ATTR_CQM_RSSI_THRESHOLD_EVENT.rawValue
    #expect(try signal(message(rssi, 0)) == SignalChange(.low, on: 17))
    #expect(try signal(message(rssi, 1)) == SignalChange(.high, on: 17))
    #expect(
      try signal(message(NL80211_ATTR_CQM_PKT_LOSS_EVENT.rawValue, 50))
        == SignalChange(.framesLost, on: 17))
    // The threshold itself, and a rate of lost frames, say nothing.
    #expect(try signal(message(NL80211_ATTR_CQM_RSSI_LEVEL.rawValue, 1)) == nil)
    #expect(try signal(message(NL80211_ATTR_CQM_TXE_RATE.rawValue, 1)) == nil)
    #expect(try signal(WirelessCaptures.connected.bytes) == nil)
    for count in 16..<WirelessCaptures.beaconsLost.bytes.count {
      let told = try signal(WirelessCaptures.beaconsLost.truncated(to: count, isConsistent: true))
      #expect(told == nil)
    }
  }

  @Test("D8 a truncated message never reports anything wrong")
  func truncated() throws {
    for capture in [WirelessCaptures.connected, WirelessCaptures.made] {
      let whole = try self.change(capture.bytes)
      for count in 16..<capture.bytes.count {
        let told = try self.change(capture.truncated(to: count, isConsistent: true))
        #expect(told == nil || told == whole)
      }
    }
  }

  @Test("D7 scans, other stations and frames are filtered out")
  func filter() {
    let filter = BPFInterpreter(program: NL80211.program.instructions)
    for capture in [
      WirelessCaptures.connected, WirelessCaptures.disconnected, WirelessCaptures.made,
      WirelessCaptures.beaconsLost,
    ] {
      #expect(filter.run(on: capture.bytes) == .max)
    }
    for command in [
      NL80211_CMD_TRIGGER_SCAN, NL80211_CMD_NEW_SCAN_RESULTS, NL80211_CMD_NEW_STATION,
      NL80211_CMD_AUTHENTICATE, NL80211_CMD_FRAME,
    ] {
      #expect(filter.run(on: self.message(command)) == 0)
    }
    #expect(filter.run(on: []) == 0)
  }

  private func message(_ command: nl80211_commands) -> [UInt8] {
    self.builder(command).bytes
  }

  private func builder(_ command: nl80211_commands) -> MessageBuilder {
    MessageBuilder(
      type: Int(WirelessCaptures.family), header: [UInt8(command.rawValue), 1, 0, 0])
  }

  // MARK: - Families

  @Test("The group numbers of a family are parsed")
  func family() throws {
    var group = MessageBuilder(type: 0, header: [])
    group.put(Int(CTRL_ATTR_MCAST_GRP_ID), raw(UInt32(12)))
    group.put(Int(CTRL_ATTR_MCAST_GRP_NAME), Array("mlme".utf8) + [0])
    var groups = MessageBuilder(type: 0, header: [])
    groups.put(1, Array(group.bytes.dropFirst(16)))
    var message = MessageBuilder(
      type: Int(GENL_ID_CTRL), header: [UInt8(CTRL_CMD_NEWFAMILY), 2, 0, 0])
    message.put(Int(CTRL_ATTR_FAMILY_NAME), Array("nl80211".utf8) + [0])
    message.put(Int(CTRL_ATTR_FAMILY_ID), raw(UInt16(32)))
    message.put(Int(CTRL_ATTR_MCAST_GROUPS), Array(groups.bytes.dropFirst(16)))
    let family = try withMessage(message.bytes) { GenericFamily(message: $0) }
    #expect(family == GenericFamily(name: "nl80211", id: 32, groups: ["mlme": 12]))
  }

  @Test("The kernel lists its families, and loads no module for an unknown one")
  func kernel() throws {
    let requester = try Requester(NETLINK_GENERIC)
    let controller = try #require(try requester.family("nlctrl"))
    #expect(controller.id == UInt16(GENL_ID_CTRL))
    #expect(controller.groups == ["notify": UInt32(GENL_ID_CTRL)])
    #expect(try requester.family("connd-has-none-such") == nil)
  }

  @Test("Without Wi-Fi links there is nothing to query and no events")
  func nothing() throws {
    let listener = try NL80211()
    #expect(try listener.link(1) == .incomplete(nil))
    var events: [KernelEvent] = []
    #expect(try !listener.drain(into: &events, limit: 10))
    #expect(events.isEmpty)
  }

  // MARK: - Answers

  @Test(
    "A link's role and its joined network are parsed",
    arguments: [
      (NL80211_IFTYPE_STATION, WirelessRole.station), (NL80211_IFTYPE_AP, .accessPoint),
      (NL80211_IFTYPE_P2P_CLIENT, .p2pClient), (NL80211_IFTYPE_MESH_POINT, .mesh),
      (nl80211_iftype(99), .other),
    ])
  func answer(type: nl80211_iftype, role: WirelessRole) throws {
    var message = self.builder(NL80211_CMD_NEW_INTERFACE)
    message.put(Int(NL80211_ATTR_IFTYPE.rawValue), raw(type.rawValue))
    // An SSID consists of octets: it is neither text nor zero-terminated.
    message.put(Int(NL80211_ATTR_SSID.rawValue), [0xFF, 0, 0x1B])
    let answer = try withMessage(message.bytes) { WirelessInterface(message: $0) }
    #expect(answer?.role == role)
    #expect(answer?.ssid == [0xFF, 0, 0x1B])
  }

  private func scanned(
    _ elements: [UInt8], status: nl80211_bss_status? = NL80211_BSS_STATUS_ASSOCIATED,
    capability: UInt16 = 0
  ) throws -> JoinedAccessPoint? {
    var network = MessageBuilder(type: 0, header: [])
    if let status { network.put(Int(NL80211_BSS_STATUS.rawValue), raw(status.rawValue)) }
    network.put(Int(NL80211_BSS_BSSID.rawValue), [2, 0, 0, 0, 0, 7])
    network.put(Int(NL80211_BSS_FREQUENCY.rawValue), raw(UInt32(2437)))
    network.put(Int(NL80211_BSS_CAPABILITY.rawValue), raw(capability))
    network.put(Int(NL80211_BSS_INFORMATION_ELEMENTS.rawValue), elements)
    var message = self.builder(NL80211_CMD_NEW_SCAN_RESULTS)
    message.put(Int(NL80211_ATTR_BSS.rawValue), Array(network.bytes.dropFirst(16)))
    return try withMessage(message.bytes) { JoinedAccessPoint(message: $0) }
  }

  private func security(_ elements: [UInt8], capability: UInt16 = 0) throws -> WirelessSecurity? {
    try self.scanned(elements, capability: capability)?.security
  }

  @Test("The joined network counts among all scan results")
  func joined() throws {
    #expect(try self.scanned([], status: nil) == nil)
    #expect(try self.scanned([], status: NL80211_BSS_STATUS_AUTHENTICATED) == nil)
    let joined = try self.scanned([])
    #expect(joined?.security == .open)
    #expect(joined?.accessPoint == AccessPoint(bssid: [2, 0, 0, 0, 0, 7], frequency: 2437))
    #expect(try self.security([], capability: 0x10) == .wep)
  }

  @Test("The SSID has arbitrary octets; a hidden one counts as absent")
  func ssid() throws {
    #expect(try self.scanned([0, 3, 0xFF, 0, 0x1B, 48, 2, 1, 0])?.ssid == [0xFF, 0, 0x1B])
    #expect(try self.scanned([1, 1, 2, 0, 1, 65])?.ssid == [65])
    let tooLong: [UInt8] = [0, 33] + Array(repeating: 65, count: 33)
    #expect(try self.scanned([0, 32] + Array(repeating: 65, count: 32))?.ssid?.count == 32)
    for hidden: [UInt8] in [[0, 0], [0, 2, 0, 0], [0, 9, 65], tooLong] {
      let scanned = try #require(try self.scanned(hidden))
      #expect(scanned.ssid == nil)
    }
  }

  /// RSN with these suites of 00:0F:AC.
  private func rsn(_ suites: UInt8...) -> [UInt8] {
    let list: [UInt8] = suites.flatMap { [0x00, 0x0F, 0xAC, $0] as [UInt8] }
    let element: [UInt8] =
      [1, 0, 0x00, 0x0F, 0xAC, 4, 1, 0, 0x00, 0x0F, 0xAC, 4, UInt8(suites.count), 0] + list
    return [48, UInt8(element.count)] + element
  }

  @Test("The security is read from the RSN and WPA suites")
  func security() throws {
    #expect(try self.security(self.rsn(2), capability: 0x10) == .personal)
    #expect(try self.security(self.rsn(8)) == .personal)
    #expect(try self.security(self.rsn(2, 1)) == [.personal, .enterprise])
    #expect(try self.security(self.rsn(18)) == .open)
    #expect(try self.security(self.rsn(200)) == .other)
    let name: [UInt8] = [0, 4] + Array("home".utf8)
    let wpa: [UInt8] =
      [221, 22, 0x00, 0x50, 0xF2, 1, 1, 0, 0x00, 0x50, 0xF2, 2, 1, 0, 0x00, 0x50, 0xF2, 2]
      + [1, 0, 0x00, 0x50, 0xF2, 2]
    #expect(try self.security(name + wpa) == .personal)
    // An element that ends before the suites means 802.1X (9.4.2.24.1).
    #expect(try self.security([48, 2, 1, 0]) == .enterprise)
  }

  @Test(
    "An access point announces a metered network (MS-NCT 2.2.1.2)",
    arguments: [(0, false), (1, false), (2, true), (4, true), (255, false)] as [(UInt8, Bool)])
  func cost(level: UInt8, isMetered: Bool) throws {
    let element: [UInt8] = [221, 8, 0x00, 0x50, 0xF2, 0x11, level, 0, 0, 0]
    #expect(try self.scanned(self.rsn(2) + element)?.accessPoint?.isMetered == isMetered)
    // A truncated element is ignored.
    #expect(try self.scanned([221, 4, 0x00, 0x50, 0xF2, 0x11])?.accessPoint?.isMetered == false)
  }

  @Test("The signal of the access point is read; missing attributes are unknown")
  func signal() throws {
    func read(_ info: MessageBuilder) throws -> WirelessSignal? {
      var message = self.builder(NL80211_CMD_NEW_STATION)
      message.put(Int(NL80211_ATTR_STA_INFO.rawValue), Array(info.bytes.dropFirst(16)))
      return try withMessage(message.bytes) { WirelessSignal(message: $0) }
    }
    var info = MessageBuilder(type: 0, header: [])
    #expect(try read(info) == WirelessSignal())
    info.put(Int(NL80211_STA_INFO_SIGNAL.rawValue), [UInt8(bitPattern: -52)])
    info.put(Int(NL80211_STA_INFO_TX_RETRIES.rawValue), raw(UInt32(3)))
    var rate = MessageBuilder(type: 0, header: [])
    rate.put(Int(NL80211_RATE_INFO_BITRATE.rawValue), raw(UInt16(540)))
    info.put(Int(NL80211_STA_INFO_RX_BITRATE.rawValue), Array(rate.bytes.dropFirst(16)))
    // Wi-Fi 7 exceeds the range of the older attribute.
    rate.put(Int(NL80211_RATE_INFO_BITRATE32.rawValue), raw(UInt32(230_590)))
    info.put(Int(NL80211_STA_INFO_TX_BITRATE.rawValue), Array(rate.bytes.dropFirst(16)))
    #expect(
      try read(info)
        == WirelessSignal(
          strength: -52, transmitRate: 23_059_000_000, receiveRate: 54_000_000, retries: 3))
  }

  @Test("D8 elements received by radio may contain anything")
  func hostile() throws {
    #expect(try self.security([48, 255, 1]) == .open)
    #expect(try self.security([48, 10, 1, 0, 0, 0xF, 0xAC, 4, 0, 0, 9, 0]) == .other)
    #expect(try self.security([48, 8, 1, 0, 0, 0xF, 0xAC, 4, 255, 255]) == .enterprise)
    for _ in 0..<2000 {
      let length = Int.random(in: 0..<80)
      let elements = (0..<length).map { _ in UInt8.random(in: 0...255) }
      #expect(try self.security([48] + elements) != nil)
    }
  }
}
