import Connectivity
import Expectation

@testable import Netlink

/// Called by libFuzzer with new bytes.
@_cdecl("LLVMFuzzerTestOneInput")
public func test(_ bytes: UnsafeRawPointer, _ size: Int) -> CInt {
  let datagram = UnsafeRawBufferPointer(start: bytes, count: size)
  Readers.hear(datagram)
  Readers.read(datagram, isDump: false)
  Readers.read(datagram, isDump: true)
  return 0
}

/// All parsers of kernel messages: the notifications, and the answer to each type of request. The
/// address sanitizer finds out-of-bounds reads; invalid results fail here.
private enum Readers {
  /// Parses a datagram as a listener does.
  static func hear(_ datagram: UnsafeRawBufferPointer) {
    let events = MessageParser.parse(datagram)
    expect(events.count <= datagram.count / 16 + 1, "\(events)")
    for event in events {
      expect(event.isPlausible, "\(event)")
      // It is logged, and may become the cause of a change.
      _ = "\(event)".utf8.count
    }
  }

  /// Parses a datagram as a requester does, for any request.
  static func read(_ datagram: UnsafeRawBufferPointer, isDump: Bool) {
    var messages = MessageReader(datagram)
    var exchange = Exchange(isDump: isDump)
    var batch = Batch<RouteMessage>("RTM_GETROUTE", first: .max, count: 3)
    var count = 0
    while let message = messages.next() {
      count += 1
      expect(message.payload.count <= datagram.count - 16 * count)
      batch.receive(message) { RouteMessage(message: $0) }
      switch exchange.receive(message) {
      case .object(let message): self.read(message)
      case .failed(let code, let words):
        expect(code > 0, "\(code)")
        let error = NetlinkError(operation: "RTM_GETLINK", code: code, message: words)
        _ = (error.description.utf8.count, KernelPath.Reason(lookup: error, of: .ipv6))
      case .nothing, .complete, .interrupted: break
      }
    }
    expect(batch.isComplete == batch.answers.allSatisfy { $0 != nil })
  }

  /// Parses it as the answer to each request for one object.
  private static func read(_ message: Message) {
    if let link = Link(message: message) {
      expect(KernelEvent.link(link).isPlausible, "\(link)")
    }
    if let address = Address(message: message) {
      expect(KernelEvent.address(address).isPlausible, "\(address)")
    }
    if let neighbour = Neighbour(message: message) {
      expect(KernelEvent.neighbour(neighbour).isPlausible, "\(neighbour)")
    }
    if let entry = BridgeEntry(message: message) {
      expect(KernelEvent.bridgeEntry(entry).isPlausible, "\(entry)")
    }
    if let rule = Rule(message: message) { expect(rule.description.utf8.count < 1000) }
    if let route = RouteMessage(message: message) {
      expect((RouteAnswer(route) == nil) == (route.reason == nil && route.outLink == nil))
      expect((RouteEntry(route) == nil) == (route.reason != nil))
      expect(Set(route.legs).count == route.legs.count && route.remaining ?? .seconds(1) > .zero)
      let change = RouteChange(route)
      expect(KernelEvent.routeRemoved(change).isPlausible, "\(change)")
    }
    self.readWireless(message)
  }

  /// Parses it as generic netlink's families and nl80211's Wi-Fi, parts of which were received by
  /// radio.
  private static func readWireless(_ message: Message) {
    if let family = GenericFamily(message: message) {
      expect(family.groups.count <= message.payload.count / 4, "\(family)")
    }
    if let change = WirelessChange(message: message) {
      expect(KernelEvent.wireless(change).isPlausible, "\(change)")
    }
    if let change = SignalChange(message: message) {
      expect(KernelEvent.signal(change).isPlausible, "\(change)")
    }
    if let interface = WirelessInterface(message: message) {
      expect((1...32).contains(interface.ssid?.count ?? 1), "\(interface)")
    }
    if let joined = JoinedAccessPoint(message: message) {
      let network = joined.ssid.map { WirelessNetwork(ssid: $0, security: joined.security) }
      // At most four characters per octet.
      expect(
        (1...32).contains(joined.ssid?.count ?? 1) && (1...128).contains(network?.name.count ?? 1))
      expect(!joined.security.isEmpty && joined.accessPoint?.bssid.count ?? 6 == 6, "\(joined)")
    }
    if let signal = WirelessSignal(message: message) {
      expect((-128...127).contains(signal.strength ?? 0), "\(signal)")
    }
  }
}

extension KernelEvent {
  /// Whether a real system could have sent this.
  fileprivate var isPlausible: Bool {
    switch self {
    case .link(let link), .linkRemoved(let link):
      !link.name.isEmpty && (1...UInt32(Int32.max)).contains(link.index) && link.lower != link.index
    case .address(let address), .addressRemoved(let address):
      (0...address.address.family.bitWidth).contains(address.prefixLength)
    case .route(let change, _), .routeRemoved(let change):
      (0...change.route.prefix.address.family.bitWidth).contains(change.route.prefix.length)
    case .neighbour(let neighbour):
      (1...UInt32(Int32.max)).contains(neighbour.link) && neighbour.hardwareAddress != []
    case .bridgeEntry(let entry):
      (1...UInt32(Int32.max)).contains(entry.port) && !entry.hardwareAddress.isEmpty
    case .wireless, .signal: true
    case .rule, .ruleRemoved, .nexthop, .nexthopRemoved, .setting, .overrun, .malformed: true
    }
  }
}
