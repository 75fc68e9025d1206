import CLinux
import Connectivity
import Testing

@testable import Netlink
import TestKit

@Suite("D6 the filter in the kernel: neighbours")
struct NeighbourFilterTests {
  @Test("D7 without watched gateways no neighbour passes")
  func none() {
    let filter = BPFInterpreter()
    for capture in [
      NeighbourCaptures.reachable4, NeighbourCaptures.stale4, NeighbourCaptures.failed4,
      NeighbourCaptures.router6, NeighbourCaptures.removed4,
    ] { #expect(filter.run(on: capture.bytes) == 0) }
  }

  @Test("I4 of the recorded messages, those with news about gateways pass")
  func recorded() throws {
    let gateways = try [
      Neighbour(address("192.0.2.1"), link: 10, hardwareAddress: [2, 0, 0, 0, 0, 2]),
      Neighbour(address("192.0.2.77"), link: 10),
      Neighbour(address("fe80::1"), link: 10, hardwareAddress: [2, 0, 0, 0, 0, 9]),
    ]
    let filter = BPFInterpreter(gateways: gateways)
    #expect(filter.run(on: NeighbourCaptures.reachable4.bytes) == .max)
    #expect(filter.run(on: NeighbourCaptures.stale4.bytes) == .max)
    #expect(filter.run(on: NeighbourCaptures.failed4.bytes) == .max)
    #expect(filter.run(on: NeighbourCaptures.router6.bytes) == 0)
    #expect(filter.run(on: NeighbourCaptures.removed4.bytes) == 0)
    let failing = BPFInterpreter(
      gateways: gateways.map { Neighbour($0.address, link: $0.link, isFailed: true) })
    #expect(failing.run(on: NeighbourCaptures.failed4.bytes) == 0)
    #expect(failing.run(on: NeighbourCaptures.stale4.bytes) == .max)
    #expect(failing.run(on: NeighbourCaptures.router6.bytes) == .max)
    #expect(failing.run(on: NeighbourCaptures.removed4.bytes) == 0)
  }

  @Test("I4 the program agrees with the plain predicate", arguments: 0..<6 as Range<UInt64>)
  func agreement(seed: UInt64) throws {
    var generator = SeededGenerator(seed: seed)
    let gateways = (0..<Int(seed) * 10).map { _ in Self.neighbour(using: &generator) }
    let filter = BPFInterpreter(gateways: gateways)
    var passed = 0
    for _ in 0..<3_000 {
      let neighbour = Self.neighbour(near: gateways, using: &generator)
      let expected = Self.isNews(neighbour, gateways)
      let result = filter.run(on: Self.message(neighbour))
      guard (result == .max) == expected, result != nil else {
        Issue.record("\(neighbour): \(String(describing: result)), watched \(gateways)")
        return
      }
      passed += expected ? 1 : 0
    }
    #expect((passed > 0) == (seed > 0) && passed < 3_000)
  }

  @Test("I4 more gateways than fit → the program passes more, never less")
  func manyGateways() {
    var generator = SeededGenerator(seed: 3)
    let gateways = (0..<2_000).map { _ in Self.neighbour(using: &generator) }
    for limit in [BPFProgram.maxLength, 1024, 256, 32] {
      let filter = BPFInterpreter(gateways: gateways, limit: limit)
      #expect(filter.program.count <= limit)
      for _ in 0..<300 {
        let neighbour = Self.neighbour(near: gateways, using: &generator)
        guard Self.isNews(neighbour, gateways) else { continue }
        #expect(filter.run(on: Self.message(neighbour)) == .max, "\(neighbour)")
      }
    }
  }

  @Test("MAC addresses of another length than six octets pass, empty ones do not")
  func otherLengths() throws {
    let six: [UInt8] = [2, 0, 0, 0, 0, 1]
    let twenty = [UInt8](repeating: 7, count: 20)
    for (known, new, expected) in [
      (six, six, 0), (six, twenty, .max), (six, Array(six.prefix(4)), .max), (six, six + [0], .max),
      (twenty, twenty, .max), (twenty, six, .max), (six, [], 0), (nil, [], 0), (nil, six, .max),
    ] as [([UInt8]?, [UInt8], UInt32)] {
      var gateway = Neighbour(try address("192.0.2.1"), link: 10, hardwareAddress: known)
      let filter = BPFInterpreter(gateways: [gateway])
      gateway.hardwareAddress = new
      #expect(filter.run(on: Self.message(gateway)) == expected, "\(known ?? []) \(new)")
    }
  }

  @Test("Bridge entries and the kernel's requests to arpd are dropped")
  func others() throws {
    let gateway = Neighbour(
      try address("192.0.2.1"), link: 10, hardwareAddress: [2, 0, 0, 0, 0, 1])
    let filter = BPFInterpreter(gateways: [Neighbour(gateway.address, link: 10)])
    #expect(filter.run(on: Self.message(gateway)) == .max)
    #expect(filter.run(on: Self.message(gateway, family: 7)) == 0)
    #expect(filter.run(on: Self.message(gateway, type: RTM_GETNEIGH)) == 0)
    #expect(filter.run(on: Self.message(gateway, type: RTM_DELNEIGH)) == 0)
  }

  /// Whether the filter has to pass it.
  private static func isNews(_ neighbour: Neighbour, _ gateways: [Neighbour]) -> Bool {
    gateways.contains { known in
      guard known.link == neighbour.link, known.address == neighbour.address else { return false }
      if neighbour.isFailed { return !known.isFailed }
      guard let new = neighbour.hardwareAddress else { return false }
      return known.isFailed || known.hardwareAddress != new
    }
  }

  private static func message(
    _ neighbour: Neighbour, type: Int = RTM_NEWNEIGH, family: UInt8? = nil
  ) -> [UInt8] {
    let family = family ?? neighbour.address.family.netlinkNumber
    var message = MessageBuilder(
      type: type,
      header: [family, 0, 0, 0] + raw(neighbour.link)
        + raw(UInt16(neighbour.isFailed ? NUD_FAILED : NUD_REACHABLE)) + [0, 1])
    message.put(Int(NDA_DST), neighbour.address.bytes)
    if let octets = neighbour.hardwareAddress { message.put(Int(NDA_LLADDR), octets) }
    message.put(Int(NDA_PROBES), raw(UInt32(0)))
    return message.bytes
  }

  /// One of a few links, addresses and MAC addresses, so that any two often share something.
  private static func neighbour(using generator: inout SeededGenerator) -> Neighbour {
    func few(_ count: UInt8) -> UInt8 { .random(in: 1...count, using: &generator) }
    let bytes: [UInt8] =
      Bool.random(using: &generator)
      ? [192, 0, few(2), few(9)]
      : [0xFE, 0x80] + Array(repeating: 0, count: 10) + [few(2), 0, 0, few(9)]
    return Neighbour(
      IPAddress(bytes: bytes) ?? .unspecified(.ipv4), link: UInt32(few(3)) * 0x0102,
      hardwareAddress: few(4) == 1 ? nil : [2, few(2), 0, 0, 0, few(3)], isFailed: few(4) == 1)
  }

  private static func neighbour(
    near gateways: [Neighbour], using generator: inout SeededGenerator
  ) -> Neighbour {
    let other = Self.neighbour(using: &generator)
    guard var near = gateways.randomElement(using: &generator) else { return other }
    switch Int.random(in: 0..<6, using: &generator) {
    case 0: return other
    case 1: near.link = other.link
    case 2: near.address = other.address
    case 3: near.hardwareAddress = other.hardwareAddress
    case 4: near.isFailed.toggle()
    default: break
    }
    return near
  }
}
