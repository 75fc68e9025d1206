import Connectivity

@testable import Netlink

/// Bytes written as hexadecimal text, with a comment after the bar of each line.
///
/// Netlink uses the host's byte order; the recordings were made on little-endian machines.
struct Capture: Sendable {
  var bytes: [UInt8] = []

  init(bytes: [UInt8]) {
    self.bytes = bytes
  }

  init(_ text: String) {
    for line in text.split(separator: "\n") {
      let digits = line.prefix { $0 != "|" }.compactMap(\.hexDigitValue)
      self.bytes += stride(from: 0, to: digits.count - 1, by: 2).map {
        UInt8(digits[$0] << 4 | digits[$0 + 1])
      }
    }
  }

  /// The parsed events.
  var events: [KernelEvent] {
    self.bytes.withUnsafeBytes { MessageParser.parse($0) }
  }

  /// The first `count` bytes, as one message of that length, or as the beginning of a longer one.
  func truncated(to count: Int, isConsistent: Bool) -> [UInt8] {
    var bytes = Array(self.bytes.prefix(count))
    if isConsistent, count >= 4 {
      bytes.replaceSubrange(0..<4, with: withUnsafeBytes(of: UInt32(count)) { Array($0) })
    }
    return bytes
  }

  static let all: [Capture] = [
    LinkCaptures.wifiDormant, LinkCaptures.wifiUp, LinkCaptures.wifiNoCarrier,
    LinkCaptures.wifiScan, LinkCaptures.wwan, LinkCaptures.vlan, LinkCaptures.bond,
    LinkCaptures.bondPort, LinkCaptures.wireguard, LinkCaptures.tun, LinkCaptures.vxlan,
    LinkCaptures.vxlanGroup, LinkCaptures.linkRemoved, LinkCaptures.bridgePortRemoved,
    AddressCaptures.address4, AddressCaptures.addressRemoved4, AddressCaptures.address6,
    AddressCaptures.addressRemoved6, AddressCaptures.addressTentative6,
    RouteCaptures.defaultRoute4, RouteCaptures.defaultRouteByGateway4,
    RouteCaptures.linkLocalRoute6, RouteCaptures.routeRemoved6, RouteCaptures.routeRemoved4,
    RouteCaptures.routeReplaced4, RouteCaptures.routeByNexthop4, RouteCaptures.routeByTwo4,
    RouteCaptures.routeByIPv6Gateway4, RouteCaptures.unreachableRoute6,
    RouteCaptures.blackholeRoute4, RouteCaptures.rule4, RouteCaptures.ruleRemoved4,
    RouteCaptures.rule6, RouteCaptures.nexthop, RouteCaptures.nexthopRemoved,
    NeighbourCaptures.reachable4, NeighbourCaptures.stale4, NeighbourCaptures.failed4,
    NeighbourCaptures.router6, NeighbourCaptures.removed4, PortCaptures.listening,
    PortCaptures.forwarding, PortCaptures.link, PortCaptures.routeByTunnel4,
    PortCaptures.routeBySegments6,
  ]
}

/// The first message in these bytes, valid while `body` runs.
func withMessage<Result>(_ bytes: [UInt8], _ body: (Message) throws -> Result) throws -> Result {
  try bytes.withUnsafeBytes { bytes in
    var reader = MessageReader(bytes)
    guard let message = reader.next() else { throw NetlinkError(operation: "read", code: 74) }
    return try body(message)
  }
}

/// Builds a message of any kind, valid or not.
struct MessageBuilder {
  private(set) var bytes: [UInt8]

  init(type: Int, flags: Int = 0, sequence: UInt32 = 0, header: [UInt8]) {
    self.bytes = [0, 0, 0, 0]
    self.append(UInt16(type))
    self.append(UInt16(flags))
    self.append(sequence)
    self.append(UInt32(0))
    self.bytes += header
    self.finish()
  }

  private mutating func append(_ number: some FixedWidthInteger) {
    self.bytes += withUnsafeBytes(of: number) { Array($0) }
  }

  mutating func put(_ type: Int, _ payload: [UInt8]) {
    self.append(UInt16(4 + payload.count))
    self.append(UInt16(type))
    self.bytes += payload + Array(repeating: 0, count: -payload.count & 3)
    self.finish()
  }

  private mutating func finish() {
    let length = UInt32(self.bytes.count)
    self.bytes.replaceSubrange(0..<4, with: withUnsafeBytes(of: length) { Array($0) })
  }
}

/// A number's bytes in host order.
func raw(_ number: some FixedWidthInteger) -> [UInt8] { withUnsafeBytes(of: number) { Array($0) } }

/// Parses addresses and prefixes that are spelt in a test.
func address(_ text: String) throws -> IPAddress {
  guard let address = IPAddress(text) else {
    throw NetlinkError(operation: "read \(text)", code: 22)
  }
  return address
}

func prefix(_ text: String) throws -> IPPrefix {
  let parts = text.split(separator: "/")
  guard
    parts.count == 2, let length = Int(parts[1]),
    let prefix = IPPrefix(try address(String(parts[0])), length: length)
  else { throw NetlinkError(operation: "read \(text)", code: 22) }
  return prefix
}
