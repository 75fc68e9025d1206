import CLinux
import Connectivity
import Glibc
import Testing

@testable import Netlink
import TestKit

@Suite("D6 the filter in the kernel: routes")
struct RouteFilterTests {
  @Test(
    "D6 of the recorded routes, default routes and those that contain a watched destination pass")
  func recorded() throws {
    let watched = try [address("10.5.77.1"), address("2001:db8:1:2::3")]
    let filter = BPFInterpreter(watching: watched)
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
    let filter = BPFInterpreter(watching: watched)
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
    "D6 more destinations than fit → the program passes more, never less",
    arguments: [300, 1_000, 5_000])
  func manyDestinations(count: Int) throws {
    var generator = SeededGenerator(seed: 7)
    let watched = (0..<count).map { _ in Self.randomAddress(using: &generator) }
    for limit in [BPFProgram.maxLength, 1024, 256, 32] {
      let filter = BPFInterpreter(watching: watched, limit: limit)
      #expect(filter.program.count <= limit)
      for address in watched.prefix(200) {
        let length = Int.random(in: 0...address.family.bitWidth, using: &generator)
        let prefix = try #require(IPPrefix(address, length: length))
        #expect(filter.run(on: Self.route(type: RTM_NEWROUTE, prefix)) == .max, "\(prefix)")
      }
    }
  }

  @Test(
    "D6 a program of any length passes routes that share the remaining leading bits",
    arguments: [
      (BPFProgram.maxLength, 10_000), (2048, 3_000), (1024, 1_000), (512, 300), (128, 100),
      (64, 20), (32, 3),
    ])
  func fallback(limit: Int, count: Int) throws {
    var generator = SeededGenerator(seed: UInt64(count))
    // A few networks in each family, like the servers of one service.
    let networks = (0..<4).map { _ in Self.randomAddress(using: &generator).bytes }
    let watched = (0..<count).compactMap { number -> IPAddress? in
      var bytes = networks[number % networks.count]
      for index in bytes.indices.dropFirst(bytes.count == 4 ? 2 : 8) {
        bytes[index] = UInt8.random(in: 0...255, using: &generator)
      }
      return IPAddress(bytes: bytes)
    }
    let filter = BPFInterpreter(watching: watched, limit: limit)
    #expect(filter.program.count <= limit)
    for _ in 0..<1_000 {
      let prefix = try #require(Self.randomPrefix(near: watched, using: &generator))
      let result = filter.run(on: Self.route(type: RTM_NEWROUTE, prefix))
      guard result != nil, result == .max || !watched.contains(where: { prefix.contains($0) })
      else {
        Issue.record("\(prefix): \(String(describing: result))")
        return
      }
    }
  }

  @Test("D6 ten thousand destinations in a few networks → unrelated routes are dropped")
  func manyInFewNetworks() throws {
    let destinations = (0..<10_000).compactMap { number -> IPAddress? in
      let (upper, lower) = (UInt8(number >> 8 & 0xFF), UInt8(number & 0xFF))
      return number % 2 == 0
        ? IPAddress(bytes: [10, UInt8(number % 3), upper, lower])
        : IPAddress(
          bytes: [0x20, 1, 0xD, 0xB8, 0, UInt8(number % 3)] + Array(repeating: upper, count: 9)
            + [lower])
    }
    let filter = BPFInterpreter(watching: destinations)
    func passes(_ text: String) throws -> Bool {
      try filter.run(on: Self.route(type: RTM_NEWROUTE, prefix(text))) == .max
    }
    for text in ["10.1.0.0/16", "10.2.8.0/24", "10.0.0.0/8", "2001:db8:1::/48", "2001:db8::/32"] {
      #expect(try passes(text), "\(text)")
    }
    for text in [
      "10.3.0.0/16", "11.0.0.0/8", "192.0.2.0/24", "10.1.64.0/18", "2001:db8:3::/48",
      "2001:db9::/32", "fe80::/64",
    ] {
      #expect(try !passes(text), "\(text)")
    }
  }

  @Test("D6 many destinations of one family do not blur the few of the other")
  func unequalFamilies() throws {
    var generator = SeededGenerator(seed: 11)
    let many = (0..<5_000).map { _ in Self.randomAddress(using: &generator) }
      .filter { $0.family == .ipv4 }
    let filter = BPFInterpreter(watching: many + [try address("2001:db8::1")])
    for (text, expected) in [("2001:db8::1/128", UInt32.max), ("2001:db8::2/128", 0)] {
      #expect(try filter.run(on: Self.route(type: RTM_NEWROUTE, prefix(text))) == expected)
    }
  }

  @Test("An unwatched family is dropped, however many destinations the other has")
  func oneFamily() throws {
    var generator = SeededGenerator(seed: 9)
    let watched = (0..<5_000).map { _ in Self.randomAddress(using: &generator) }
      .filter { $0.family == .ipv4 }
    let filter = BPFInterpreter(watching: watched)
    #expect(try filter.run(on: Self.route(type: RTM_NEWROUTE, prefix("2001:db8::/32"))) == 0)
  }

  @Test("A route message without a destination, or of another family")
  func oddRoutes() throws {
    let filter = try BPFInterpreter(watching: [address("192.0.2.1")])
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

  /// A prefix of any length that contains a watched address, misses it by one bit, or is unrelated.
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
