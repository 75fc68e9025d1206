import CLinux
import Connectivity
import Glibc
import Testing

@testable import Netlink

/// nl80211, which comes and goes with the Wi-Fi drivers, and gives no answer or an incomplete one.
@Suite("nl80211 while a Wi-Fi driver is loaded and unloaded")
struct NL80211Tests {
  private let sockets = ScriptedSockets()
  private static let (getFamily, getInterface, getScan) =
    (
      UInt8(CTRL_CMD_GETFAMILY), UInt8(NL80211_CMD_GET_INTERFACE.rawValue),
      UInt8(NL80211_CMD_GET_SCAN.rawValue)
    )

  /// The end of a dump.
  private static func done(flags: Int32 = 0, code: Int32 = 0) -> [UInt8] {
    MessageBuilder(type: Int(NLMSG_DONE), flags: Int(NLM_F_MULTI | flags), header: raw(code)).bytes
  }

  private static func error(_ code: CInt) -> [UInt8] {
    MessageBuilder(
      type: Int(NLMSG_ERROR), header: raw(-code) + Array(repeating: 0, count: 16)
    ).bytes
  }

  /// The controller's message about a family: `command` is CTRL_CMD_NEWFAMILY or
  /// CTRL_CMD_DELFAMILY.
  private static func family(
    _ command: Int, named name: String = "nl80211", id: UInt16,
    groups: [(name: String, id: UInt32)] = []
  ) -> [UInt8] {
    var message = MessageBuilder(type: Int(GENL_ID_CTRL), header: [UInt8(command), 2, 0, 0])
    message.put(Int(CTRL_ATTR_FAMILY_NAME), Array(name.utf8) + [0])
    message.put(Int(CTRL_ATTR_FAMILY_ID), raw(id))
    var list = MessageBuilder(type: 0, header: [])
    for (place, group) in groups.enumerated() {
      var one = MessageBuilder(type: 0, header: [])
      one.put(Int(CTRL_ATTR_MCAST_GRP_ID), raw(group.id))
      one.put(Int(CTRL_ATTR_MCAST_GRP_NAME), Array(group.name.utf8) + [0])
      list.put(place + 1, Array(one.bytes.dropFirst(16)))
    }
    message.put(Int(CTRL_ATTR_MCAST_GROUPS), Array(list.bytes.dropFirst(16)))
    return message.bytes
  }

  /// A notification of a family with another number.
  private static func told(_ capture: Capture, by family: UInt16) -> [UInt8] {
    Array(capture.bytes[..<4]) + raw(family) + Array(capture.bytes[6...])
  }

  private func answer(
    interface: [[UInt8]] = [WirelessAnswerCaptures.interface.bytes],
    scan: @escaping () -> [[UInt8]] = { [WirelessAnswerCaptures.joined.bytes, done()] }
  ) {
    self.sockets.answer = { family, command in
      switch (family, command) {
      case (UInt16(GENL_ID_CTRL), Self.getFamily): [FamilyCaptures.wireless.bytes, Self.done()]
      case (_, Self.getInterface): interface
      case (_, Self.getScan): scan()
      default: [Self.error(ENOENT)]
      }
    }
  }

  private func drain(_ listener: NL80211) throws -> [KernelEvent] {
    var events: [KernelEvent] = []
    #expect(try !listener.drain(into: &events, limit: 100))
    return events
  }

  private static let home = WirelessLink(
    role: .station, network: WirelessNetwork(ssid: Array("home".utf8), security: .personal),
    accessPoint: AccessPoint(bssid: [2, 0, 0, 0, 1, 0], frequency: 2412))

  // MARK: - The module comes and goes

  @Test("The module is unloaded → no queries; it is loaded with another number → it is found again")
  func module() throws {
    self.answer()
    let listener = try NL80211(from: self.sockets)
    #expect(self.sockets.joined == [16, 12, 9])
    #expect(try listener.link(2) == .link(Self.home))

    self.sockets.notifications = [
      Self.family(CTRL_CMD_DELFAMILY, named: "TASKSTATS", id: 31),
      Self.family(CTRL_CMD_DELFAMILY, id: 32),
      WirelessCaptures.connected.bytes,
    ]
    #expect(try self.drain(listener) == [])
    let asked = self.sockets.asked.count
    #expect(try listener.link(2) == .incomplete(nil))
    #expect(try listener.signal(2) == nil)
    #expect(self.sockets.asked.count == asked)

    self.sockets.notifications = [
      Self.family(CTRL_CMD_NEWFAMILY, named: "acpi_event", id: 33, groups: [("mlme", 20)]),
      Self.family(
        CTRL_CMD_NEWFAMILY, id: 34, groups: [("config", 21), ("scan", 22), ("mlme", 23)]),
      // The number may now belong to another family.
      WirelessCaptures.connected.bytes,
      Self.told(WirelessCaptures.connected, by: 34),
    ]
    #expect(try self.drain(listener) == [.wireless(WirelessChange(.joined, on: 17))])
    #expect(self.sockets.joined.dropFirst(3) == [23, 21])
    #expect(try listener.link(2) == .link(Self.home))
    #expect(self.sockets.asked.last == "34 \(Self.getScan)")
  }

  @Test("Groups of an unloaded module are not an error; another failure is one")
  func goneAgain() throws {
    self.answer()
    let listener = try NL80211(from: self.sockets)
    let news = Self.family(CTRL_CMD_NEWFAMILY, id: 34, groups: [("config", 21), ("mlme", 23)])
    self.sockets.refused = [21: ENOENT, 23: ENOENT]
    self.sockets.notifications = [news, Self.family(CTRL_CMD_DELFAMILY, id: 34)]
    #expect(try self.drain(listener) == [])
    #expect(try listener.link(2) == .incomplete(nil))
    self.sockets.refused = [23: EPERM]
    self.sockets.notifications = [news]
    #expect(throws: NetlinkError.self) { try self.drain(listener) }
  }

  // MARK: - Missing answers

  @Test("D8 a list that keeps changing is requested five times, and leaves the network unknown")
  func interrupted() throws {
    self.answer {
      [WirelessAnswerCaptures.joined.bytes, Self.done(flags: NLM_F_DUMP_INTR)]
    }
    let listener = try NL80211(from: self.sockets)
    #expect(try listener.link(2) == .incomplete(WirelessLink(role: .station)))
    #expect(self.sockets.asked.count { $0 == "32 \(Self.getScan)" } == 5)
  }

  @Test("D8 a list that changes once is requested again")
  func settled() throws {
    var times = 0
    self.answer {
      times += 1
      return [
        WirelessAnswerCaptures.heard.bytes, WirelessAnswerCaptures.joined.bytes,
        Self.done(flags: times == 1 ? NLM_F_DUMP_INTR : 0),
      ]
    }
    let listener = try NL80211(from: self.sockets)
    #expect(try listener.link(2) == .link(Self.home))
    #expect(times == 2)
  }

  @Test("The SSID that the kernel reports directly is known, even if the list keeps changing")
  func named() throws {
    var interface = MessageBuilder(
      type: 32, header: [UInt8(NL80211_CMD_NEW_INTERFACE.rawValue), 1, 0, 0])
    interface.put(
      Int(NL80211_ATTR_IFTYPE.rawValue), raw(NL80211_IFTYPE_STATION.rawValue))
    interface.put(Int(NL80211_ATTR_SSID.rawValue), Array("home".utf8))
    self.answer(interface: [interface.bytes]) { [Self.done(flags: NLM_F_DUMP_INTR)] }
    let listener = try NL80211(from: self.sockets)
    let named = WirelessLink(role: .station, network: WirelessNetwork(ssid: Array("home".utf8)))
    #expect(try listener.link(2) == .incomplete(named))
    // The driver does not list scan results, so there is nothing to wait for.
    self.answer(interface: [interface.bytes]) { [Self.error(EOPNOTSUPP)] }
    #expect(try listener.link(2) == .link(named))
  }

  @Test("a link known not to be Wi-Fi is an answer; a failed query is not")
  func notWireless() throws {
    self.answer(interface: [WirelessAnswerCaptures.notWireless.bytes])
    let listener = try NL80211(from: self.sockets)
    #expect(try listener.link(1) == .notWireless)
    for code in [ENOENT, ENOMEM, EPERM] {
      self.answer(interface: [Self.error(code)])
      #expect(throws: NetlinkError.self) { try listener.link(1) }
    }
  }
}
