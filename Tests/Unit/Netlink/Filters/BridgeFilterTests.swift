import CLinux
import Connectivity
import Glibc
import TestKit
import Testing

@testable import Netlink

@Suite("D6 the filter in the kernel: bridges")
struct BridgeFilterTests {
  @Test("I4 the program agrees with the plain predicate", arguments: 0..<5 as Range<UInt64>)
  func agreement(seed: UInt64) throws {
    var random = SeededGenerator(seed: seed)
    let watched = (0..<Int(seed) * 4).map { _ in Self.octets(using: &random) }
    let filter = BPFInterpreter(FilterSpec(bridged: watched))
    var passed = 0
    for _ in 0..<2_000 {
      let octets = Self.octets(using: &random)
      let isWatched = octets.count == 6 && watched.contains(octets)
      let result = filter.run(on: Self.message(octets))
      guard (result == .max) == isWatched, result != nil else {
        Issue.record("\(octets): \(String(describing: result)), watched \(watched)")
        return
      }
      passed += isWatched ? 1 : 0
    }
    #expect((passed > 0) == (seed > 0) && passed < 2_000)
    #expect(filter.run(on: Self.message(nil)) == 0)
  }

  @Test("I4 more addresses than fit → the program passes more, never less")
  func many() {
    let watched = (0..<2_000).map { [2, 0, 0, 0, UInt8($0 >> 8), UInt8($0 & 0xFF)] as [UInt8] }
    for limit in [BPFProgram.maxLength, 1024, 256, 32] {
      let filter = BPFInterpreter(FilterSpec(bridged: watched), limit: limit)
      #expect(filter.program.count <= limit)
      for octets in watched { #expect(filter.run(on: Self.message(octets)) == .max) }
    }
  }

  @Test("A bridge entry is parsed, and an incomplete one is malformed")
  func parse() {
    let message = Capture(bytes: Self.message([2, 0, 0, 0, 0, 9]))
    #expect(
      message.events == [.bridgeEntry(BridgeEntry([2, 0, 0, 0, 0, 9], port: 10, bridge: 12))])
    for wrong in [Self.message(nil), Self.message([]), Self.message([2, 0, 0, 0, 0, 9], port: 0)] {
      let events = Capture(bytes: wrong).events
      guard events.count == 1, case .malformed? = events.first else {
        Issue.record("\(events)")
        continue
      }
    }
  }

  /// One of a few addresses, some of them shorter than others.
  private static func octets(using random: inout SeededGenerator) -> [UInt8] {
    func few(_ count: UInt8) -> UInt8 { .random(in: 1...count, using: &random) }
    let octets = [2, few(2), 0, few(2), few(2), few(3)]
    return few(9) == 1 ? Array(octets.prefix(Int(few(5)))) : octets
  }

  private static func message(_ octets: [UInt8]?, port: UInt32 = 10) -> [UInt8] {
    var message = MessageBuilder(
      type: Int(RTM_NEWNEIGH), header: [UInt8(AF_BRIDGE), 0, 0, 0] + raw(port) + [2, 0, 0, 0])
    if let octets { message.put(Int(NDA_LLADDR), octets) }
    message.put(Int(NDA_MASTER), raw(UInt32(12)))
    return message.bytes
  }
}
