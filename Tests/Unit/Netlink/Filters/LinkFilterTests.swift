import CLinux
import Connectivity
import TestKit
import Testing

@testable import Netlink

@Suite("D6 the filter in the kernel: links")
struct LinkFilterTests {
  @Test("T3 the program agrees with the plain predicate", arguments: 0..<6 as Range<UInt64>)
  func agreement(seed: UInt64) throws {
    var random = SeededGenerator(seed: seed)
    let unheard = UnheardLinks(
      above: [0, 1, 9, 255, 256, 0x0102_0304][Int(seed)],
      except: (0..<Int(seed)).map { _ in Self.link(using: &random) },
      masters: (0..<Int(seed)).map { _ in Self.link(using: &random) })
    let filter = BPFInterpreter(FilterSpec(unheard: unheard))
    var passed = 0
    for _ in 0..<3_000 {
      let message = Self.message(unheard, using: &random)
      let result = filter.run(on: message.bytes)
      guard (result == .max) == message.isHeard, result != nil else {
        Issue.record("\(message): \(String(describing: result)), \(unheard)")
        return
      }
      passed += message.isHeard ? 1 : 0
    }
    #expect(passed > 0 && passed < 3_000)
  }

  @Test("T3 of the recorded messages about later links, only the ones that may lead to them pass")
  func recorded() {
    let filter = BPFInterpreter(FilterSpec(unheard: UnheardLinks(above: 0)))
    let passing = Capture.all.filter { filter.run(on: $0.bytes) == .max }.map(\.bytes)
    for dropped in [
      LinkCaptures.wifiUp, LinkCaptures.bondPort, LinkCaptures.linkRemoved,
      LinkCaptures.bridgePortRemoved,
    ] { #expect(!passing.contains(dropped.bytes)) }
    for passed in [
      AddressCaptures.address4, AddressCaptures.addressRemoved4, RouteCaptures.defaultRoute4,
      RouteCaptures.rule4, RouteCaptures.nexthop,
    ] { #expect(passing.contains(passed.bytes)) }
  }

  private struct Message {
    var bytes: [UInt8]
    /// Whether the filter has to pass it.
    var isHeard: Bool
  }

  /// One of a few indexes, so that any two are often equal, and with different bytes in another
  /// order.
  private static func link(using random: inout SeededGenerator) -> UInt32 {
    let number: UInt32 = .random(in: 1...6, using: &random)
    return number << [0, 8, 16, 24].randomElement(using: &random).unsafelyUnwrapped
  }

  private static func attribute(_ type: Int, _ payload: [UInt8]) -> [UInt8] {
    raw(UInt16(4 + payload.count)) + raw(UInt16(type)) + payload
      + Array(repeating: 0, count: -payload.count & 3)
  }

  private static func message(
    _ unheard: UnheardLinks, using random: inout SeededGenerator
  ) -> Message {
    let link = Self.link(using: &random)
    let isHeard = link <= unheard.above || unheard.except.contains(link)
    if Bool.random(using: &random) {
      let type = Bool.random(using: &random) ? Int(RTM_NEWLINK) : Int(RTM_DELLINK)
      var message = MessageBuilder(
        type: type, header: [0, 0, 1, 0] + raw(link) + raw(UInt32(0)) + raw(UInt32(0)))
      message.put(Int(IFLA_IFNAME), Array("veth0".utf8) + [0])
      let kind = ["", "ifb", "ifbx", "if", "veth"].randomElement(using: &random) ?? ""
      if !kind.isEmpty {
        message.put(
          Int(IFLA_LINKINFO),
          self.attribute(Int(IFLA_INFO_DATA), Array("ifb".utf8) + [0])
            + self.attribute(Int(IFLA_INFO_KIND), Array(kind.utf8) + [0]))
      }
      let isHeard = isHeard || kind == "ifb"
      guard Bool.random(using: &random) else {
        return Message(bytes: message.bytes, isHeard: isHeard)
      }
      let master = Self.link(using: &random)
      message.put(Int(IFLA_MASTER), raw(master))
      return Message(bytes: message.bytes, isHeard: isHeard || unheard.masters.contains(master))
    }
    let type = Bool.random(using: &random) ? Int(RTM_NEWADDR) : Int(RTM_DELADDR)
    let family = Bool.random(using: &random) ? AF_INET : AF_INET6
    let isLinks = Bool.random(using: &random)
    let scope = isLinks ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE
    let message = MessageBuilder(
      type: type, header: [UInt8(family), 64, 0, UInt8(scope.rawValue)] + raw(link))
    return Message(
      bytes: message.bytes, isHeard: isHeard || family == AF_INET || !isLinks)
  }
}
