import Connectivity
import Glibc
import TestTraits
import Testing

@testable import Netlink
import TestKit

/// D8: any bytes are normal input. The parsed bytes end at a page without access, so that reading
/// one byte too many crashes the test.
@Suite("D8 hostile messages")
struct HostileInputTests {
  @Test("D8 every truncation of every message is parsed safely", arguments: Capture.all.indices)
  func truncations(index: Int) throws {
    let capture = Capture.all[index]
    let page = try GuardedPages()
    for count in 0..<capture.bytes.count {
      // A beginning of a message is not a message.
      let cut = page.parse(capture.truncated(to: count, isConsistent: false))
      #expect(cut.count == (count == 0 ? 0 : 1), "\(count) bytes")
      #expect(cut.allSatisfy({ $0.isMalformed }), "\(count) bytes")
      // A message that ends early may still have content.
      let short = page.parse(capture.truncated(to: count, isConsistent: true))
      #expect(short.count <= 1, "\(count) bytes")
      if count < 16 { #expect(short.allSatisfy({ $0.isMalformed }), "\(count) bytes") }
    }
  }

  @Test("D8 random mutations are parsed safely", .blocking, arguments: 0..<8 as Range<UInt64>)
  func mutations(seed: UInt64) throws {
    let page = try GuardedPages()
    var generator = SeededGenerator(seed: seed)
    // The shorter a message, the more of its mutations matter.
    let captures = Capture.all.map(\.bytes).filter { $0.count < 700 }
    for _ in 0..<25_000 {
      var bytes = captures.randomElement(using: &generator) ?? []
      if Int.random(in: 0..<8, using: &generator) == 0 {
        bytes += captures.randomElement(using: &generator) ?? []
      }
      for _ in 0..<Int.random(in: 1...6, using: &generator) {
        // Lengths and types are at even offsets; zero, one and all bits set are where loops and
        // overflows hide.
        let place = Int.random(in: 0..<bytes.count, using: &generator)
        bytes[place] =
          [0, 1, 4, 0xFF, UInt8.random(in: 0...255, using: &generator)]
          .randomElement(using: &generator) ?? 0
      }
      bytes.removeLast(Int.random(in: 0..<4, using: &generator))
      let events = page.parse(bytes)
      guard events.count <= bytes.count / 16 + 1, events.allSatisfy({ $0.isPlausible }) else {
        Issue.record("\(bytes) gave \(events)")
        return
      }
    }
  }

  @Test(
    "D8 message lengths of zero and beyond the end stop the parsing",
    arguments: [0, 3, 15, 17_000_000, UInt32.max])
  func messageLengths(length: UInt32) {
    var bytes = RouteCaptures.nexthop.bytes
    bytes.replaceSubrange(0..<4, with: raw(length))
    #expect(Capture(bytes: bytes).events.allSatisfy({ $0.isMalformed }))
    #expect(Capture(bytes: bytes).events.count == 1)
  }

  @Test(
    "D8 attribute lengths of zero and beyond the end are malformed",
    arguments: [0, 1, 3, 200, UInt16.max])
  func attributeLengths(length: UInt16) {
    var bytes = AddressCaptures.address4.bytes
    bytes.replaceSubrange(24..<26, with: raw(length))
    #expect(Capture(bytes: bytes).events.allSatisfy({ $0.isMalformed }))
    #expect(Capture(bytes: bytes).events.count == 1)
  }

  @Test("D8 a message at an odd address is parsed alike", arguments: 1..<8)
  func alignment(offset: Int) {
    for capture in Capture.all {
      let bytes = Array(repeating: 0xEE, count: offset) + capture.bytes
      let events = bytes.withUnsafeBytes {
        MessageParser.parse(UnsafeRawBufferPointer(rebasing: $0[offset...]))
      }
      #expect(events == capture.events)
    }
  }

  @Test("D8 rules and answers are parsed with the same care", arguments: 0..<4 as Range<UInt64>)
  func otherParsers(seed: UInt64) throws {
    let page = try GuardedPages()
    var generator = SeededGenerator(seed: seed)
    let captures = [
      RouteCaptures.rule4, RouteCaptures.rule6, RouteCaptures.defaultRouteByGateway4,
      RouteCaptures.routeByTwo4,
    ]
    for _ in 0..<10_000 {
      var bytes = captures.randomElement(using: &generator)?.bytes ?? []
      let place = Int.random(in: 16..<bytes.count, using: &generator)
      bytes[place] = UInt8.random(in: 0...255, using: &generator)
      page.withBytes(bytes) { bytes in
        var reader = MessageReader(bytes)
        guard let message = reader.next() else { return }
        let rule = Rule(message: message)
        #expect((rule?.selector.utf8.count ?? 0) < 400)
        _ = RouteMessage(message: message).flatMap(RouteAnswer.init)
        var exchange = Exchange(isDump: true)
        _ = exchange.receive(message)
      }
    }
  }
}

/// Memory that ends at an inaccessible page.
private final class GuardedPages {
  private let start: UnsafeMutableRawPointer
  private let size: Int

  init() throws {
    let page = sysconf(CInt(_SC_PAGESIZE))
    self.size = page * 2
    guard
      let start = mmap(
        nil, self.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
      start != MAP_FAILED, mprotect(start + page, page, PROT_NONE) == 0
    else { throw NetlinkError(operation: "mmap", code: errno) }
    self.start = start
  }

  deinit { munmap(self.start, self.size) }

  func withBytes(_ bytes: [UInt8], _ body: (UnsafeRawBufferPointer) -> Void) {
    let place = self.start + (self.size / 2 - bytes.count)
    bytes.withUnsafeBytes {
      place.copyMemory(from: $0.baseAddress ?? UnsafeRawPointer(place), byteCount: $0.count)
    }
    body(UnsafeRawBufferPointer(start: place, count: bytes.count))
  }

  func parse(_ bytes: [UInt8]) -> [KernelEvent] {
    var events: [KernelEvent] = []
    self.withBytes(bytes) { events = MessageParser.parse($0) }
    return events
  }
}

extension KernelEvent {
  fileprivate var isMalformed: Bool {
    if case .malformed = self { true } else { false }
  }

  /// Whether a real system could have sent this.
  fileprivate var isPlausible: Bool {
    switch self {
    case .link(let link), .linkRemoved(let link):
      !link.name.isEmpty && link.index > 0 && link.index <= UInt32(Int32.max)
        && link.hardwareAddress.count < 1000 && link.lower != link.index
    case .address(let address), .addressRemoved(let address):
      (0...address.address.family.bitWidth).contains(address.prefixLength)
    case .route(let change, _), .routeRemoved(let change):
      (0...change.route.prefix.address.family.bitWidth).contains(change.route.prefix.length)
    case .neighbour(let neighbour):
      neighbour.link > 0 && neighbour.link <= UInt32(Int32.max)
        && neighbour.hardwareAddress.map { (1..<1000).contains($0.count) } ?? true
    case .bridgeEntry(let entry):
      entry.port > 0 && entry.port <= UInt32(Int32.max)
        && (1..<1000).contains(entry.hardwareAddress.count)
    case .rule, .ruleRemoved, .nexthop, .nexthopRemoved, .wireless, .signal, .setting,
      .overrun, .malformed:
      true
    }
  }
}
