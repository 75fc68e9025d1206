import CLinux
import Connectivity
import Glibc
import Testing

@testable import Netlink

@Suite("D6 the filter in the kernel")
struct RouteFilterTests {
  @Test("D6 everything but routes passes")
  func others() {
    let filter = BPFInterpreter(program: RouteFilter(watching: []).program)
    for capture in Capture.all {
      let type = Int(capture.bytes[4])
      guard type != Int(RTM_NEWROUTE), type != Int(RTM_DELROUTE) else { continue }
      #expect(filter.run(on: capture.bytes) == .max)
    }
  }

  @Test("D6 of recorded routes the defaults pass, and what holds a watched destination")
  func recorded() throws {
    let watched = try [address("10.5.77.1"), address("2001:db8:1:2::3")]
    let filter = BPFInterpreter(program: RouteFilter(watching: watched).program)
    func passes(_ capture: Capture) -> Bool { filter.run(on: capture.bytes) == .max }
    #expect(passes(RouteCaptures.defaultRoute4))
    #expect(passes(RouteCaptures.defaultRouteByGateway4))
    #expect(passes(RouteCaptures.routeReplaced4))
    #expect(passes(RouteCaptures.routeByIPv6Gateway4))
    #expect(passes(RouteCaptures.blackholeRoute4))
    #expect(passes(RouteCaptures.unreachableRoute6))
    #expect(!passes(RouteCaptures.linkLocalRoute6))
    #expect(!passes(RouteCaptures.routeRemoved6))
    #expect(!passes(RouteCaptures.routeRemoved4))
    #expect(!passes(RouteCaptures.routeByNexthop4))
    #expect(!passes(RouteCaptures.routeByTwo4))
  }

  @Test("D6 the program agrees with the plain predicate", arguments: 0..<6 as Range<UInt64>)
  func agreement(seed: UInt64) throws {
    var generator = SeededGenerator(seed: seed)
    let watched = (0..<Int(seed) * 6).map { _ in Self.randomAddress(using: &generator) }
    let program = RouteFilter(watching: watched).program
    let filter = BPFInterpreter(program: program)
    var passed = 0
    for _ in 0..<3_000 {
      let prefix = try #require(Self.randomPrefix(near: watched, using: &generator))
      let type = Bool.random(using: &generator) ? RTM_NEWROUTE : RTM_DELROUTE
      let expected = prefix.length <= 1 || watched.contains { prefix.contains($0) }
      let result = filter.run(on: Self.route(type: type, prefix))
      guard (result == .max) == expected, result != nil else {
        Issue.record("\(prefix): \(String(describing: result)), watched \(watched)")
        return
      }
      passed += expected ? 1 : 0
    }
    #expect(passed > 0 && passed < 3_000)
  }

  @Test(
    "D6 with more destinations than fit the program lets more through, never less",
    arguments: [300, 1_000, 5_000])
  func manyDestinations(count: Int) throws {
    var generator = SeededGenerator(seed: 7)
    let watched = (0..<count).map { _ in Self.randomAddress(using: &generator) }
    for limit in [RouteFilter.longest, 1024, 256, 32] {
      let program = RouteFilter(watching: watched, limit: limit).program
      #expect(program.count <= limit)
      let filter = BPFInterpreter(program: program)
      for address in watched.prefix(200) {
        let length = Int.random(in: 0...address.family.bitWidth, using: &generator)
        let prefix = try #require(IPPrefix(address, length: length))
        #expect(filter.run(on: Self.route(type: RTM_NEWROUTE, prefix)) == .max, "\(prefix)")
      }
    }
  }

  @Test("A family that is not watched is dropped however many of the other are")
  func oneFamily() throws {
    var generator = SeededGenerator(seed: 9)
    let watched = (0..<5_000).map { _ in Self.randomAddress(using: &generator) }
      .filter { $0.family == .ipv4 }
    let filter = BPFInterpreter(program: RouteFilter(watching: watched).program)
    #expect(try filter.run(on: Self.route(type: RTM_NEWROUTE, prefix("2001:db8::/32"))) == 0)
  }

  @Test("A route message without a destination, or of another family")
  func oddRoutes() throws {
    let filter = try BPFInterpreter(program: RouteFilter(watching: [address("192.0.2.1")]).program)
    let header: [UInt8] = [2, 24, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0]
    let bare = MessageBuilder(type: Int(RTM_NEWROUTE), header: header)
    #expect(filter.run(on: bare.bytes) == .max)
    let mpls = MessageBuilder(type: Int(RTM_NEWROUTE), header: [28, 20] + header.dropFirst(2))
    #expect(filter.run(on: mpls.bytes) == 0)
    for count in 0..<28 {
      #expect(filter.run(on: Array(bare.bytes.prefix(count))) != nil)
    }
  }

  private static func route(type: Int, _ prefix: IPPrefix) -> [UInt8] {
    let header: [UInt8] = [
      prefix.address.family.netlinkNumber, UInt8(prefix.length), 0, 0, 254, 3, 0, 1, 0, 0, 0, 0,
    ]
    var message = MessageBuilder(type: type, header: header)
    message.put(Int(RTA_TABLE.rawValue), raw(UInt32(254)))
    if prefix.length > 0 { message.put(Int(RTA_DST.rawValue), prefix.address.bytes) }
    message.put(Int(RTA_OIF.rawValue), raw(UInt32(3)))
    return message.bytes
  }

  private static func randomAddress(using generator: inout SeededGenerator) -> IPAddress {
    while true {
      let count = Bool.random(using: &generator) ? 4 : 16
      let bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
      if let address = IPAddress(bytes: bytes) { return address }
    }
  }

  /// A prefix of any length that holds a watched address, misses it by one bit, or is anywhere.
  private static func randomPrefix(
    near watched: [IPAddress], using generator: inout SeededGenerator
  ) -> IPPrefix? {
    var address = Self.randomAddress(using: &generator)
    if let other = watched.randomElement(using: &generator),
      Int.random(in: 0..<4, using: &generator) > 0
    {
      address = other
    }
    let length = Int.random(in: 0...address.family.bitWidth, using: &generator)
    if Bool.random(using: &generator) {
      var bytes = address.bytes
      let bit = Int.random(in: 0..<bytes.count * 8, using: &generator)
      bytes[bit / 8] ^= 0x80 >> UInt8(bit % 8)
      address = IPAddress(bytes: bytes) ?? address
    }
    return IPPrefix(address, length: length)
  }
}
