import CLinux
import Connectivity
import Glibc

/// Parses the untrusted bytes of notifications.
///
/// Implements rule D8.
enum MessageParser {
  /// Returns the events of a datagram, in order. Ignores messages of types that connd does not
  /// follow.
  static func parse(_ datagram: UnsafeRawBufferPointer) -> [KernelEvent] {
    var events: [KernelEvent] = []
    self.parse(datagram, into: &events)
    return events
  }

  static func parse(_ datagram: UnsafeRawBufferPointer, into events: inout [KernelEvent]) {
    var messages = MessageReader(datagram)
    while let message = messages.next() {
      if let event = self.event(of: message) { events.append(event) }
    }
    if messages.isMalformed {
      events.append(.malformed("a datagram of \(datagram.count) bytes with a wrong message length"))
    }
  }

  private static func event(of message: Message) -> KernelEvent? {
    switch Int(message.type) {
    case Int(RTM_NEWLINK): self.link(message).map { $0.event(KernelEvent.link) }
    case Int(RTM_DELLINK): self.link(message).map { $0.event(KernelEvent.linkRemoved) }
    case Int(RTM_NEWADDR): self.address(message).map { $0.event(KernelEvent.address) }
    case Int(RTM_DELADDR): self.address(message).map { $0.event(KernelEvent.addressRemoved) }
    case Int(RTM_NEWROUTE):
      self.route(message).map {
        $0.event { .route($0, replaced: message.flags & UInt16(NLM_F_REPLACE) != 0) }
      }
    case Int(RTM_DELROUTE): self.route(message).map { $0.event(KernelEvent.routeRemoved) }
    case Int(RTM_NEWRULE): self.rule(message).map { $0.event(KernelEvent.rule) }
    case Int(RTM_DELRULE): self.rule(message).map { $0.event(KernelEvent.ruleRemoved) }
    case Int(RTM_NEWNEXTHOP): self.nexthop(message).event { .nexthop(id: $0) }
    case Int(RTM_DELNEXTHOP): self.nexthop(message).event { .nexthopRemoved(id: $0) }
    // A reassigned bucket may move a flow to another path of a resilient group.
    case Int(RTM_NEWNEXTHOPBUCKET), Int(RTM_DELNEXTHOPBUCKET):
      self.nexthop(message).event { .nexthop(id: $0) }
    case Int(RTM_NEWNEIGH):
      message.payload.uint8.map(CInt.init) == AF_BRIDGE
        ? self.bridgeEntry(message).event(KernelEvent.bridgeEntry)
        : self.neighbour(message).map { $0.event(KernelEvent.neighbour) }
    case Int(RTM_NEWNETCONF): self.setting(message).map { $0.event(KernelEvent.setting) }
    case Int(NLMSG_OVERRUN): .overrun
    default: nil
    }
  }

  /// The result of parsing a message.
  private enum Reading<Subject> {
    case subject(Subject)
    case malformed(String)

    init(_ subject: Subject?, _ name: String, _ message: Message) {
      self =
        subject.map(Self.subject)
        ?? .malformed("\(name) (type \(message.type), \(message.payload.count) bytes)")
    }

    func event(_ make: (Subject) -> KernelEvent) -> KernelEvent {
      switch self {
      case .subject(let subject): make(subject)
      case .malformed(let text): .malformed(text)
      }
    }
  }

  private static func link(_ message: Message) -> Reading<Link>? {
    if let family = message.payload.uint8, family != 0 {
      // A port that leaves its bridge is announced by an RTM_DELLINK of AF_BRIDGE, although it
      // still exists. The other AF_BRIDGE messages report whether a port forwards, which no other
      // message does.
      guard CInt(family) == AF_BRIDGE, Int(message.type) == Int(RTM_NEWLINK),
        let link = Link(message: message), link.bridgePort != nil
      else { return nil }
      return .subject(link)
    }
    // A driver's wireless event, such as a scan result, arrives as an RTM_NEWLINK without link
    // data.
    var attributes = AttributeReader(message.payload, after: MemoryLayout<ifinfomsg>.size)
    while let attribute = attributes.next() {
      if attribute.type == Int(IFLA_WIRELESS) { return nil }
    }
    return Reading(Link(message: message), "link", message)
  }

  private static func address(_ message: Message) -> Reading<Address>? {
    guard self.isFollowed(message) else { return nil }
    return Reading(Address(message: message), "address", message)
  }

  private static func route(_ message: Message) -> Reading<RouteChange>? {
    guard self.isFollowed(message) else { return nil }
    return Reading(RouteMessage(message: message).map(RouteChange.init), "route", message)
  }

  private static func rule(_ message: Message) -> Reading<AddressFamily>? {
    guard self.isFollowed(message) else { return nil }
    let isWhole = message.payload.count >= MemoryLayout<fib_rule_hdr>.size
    let family = message.payload.uint8.flatMap(AddressFamily.init(netlink:))
    return Reading(isWhole ? family : nil, "rule", message)
  }

  private static func nexthop(_ message: Message) -> Reading<UInt32> {
    var id: UInt32?
    var attributes = AttributeReader(message.payload, after: MemoryLayout<nhmsg>.size)
    while let attribute = attributes.next() {
      if attribute.type == Int(NHA_ID) { id = attribute.payload.uint32 }
    }
    return Reading(attributes.isMalformed ? nil : id, "nexthop", message)
  }

  private static func neighbour(_ message: Message) -> Reading<Neighbour>? {
    guard self.isFollowed(message) else { return nil }
    return Reading(Neighbour(message: message), "neighbour", message)
  }

  private static func bridgeEntry(_ message: Message) -> Reading<BridgeEntry> {
    Reading(BridgeEntry(message: message), "bridge entry", message)
  }

  private static func setting(_ message: Message) -> Reading<AddressFamily>? {
    guard self.isFollowed(message) else { return nil }
    return Reading(
      message.payload.uint8.flatMap(AddressFamily.init(netlink:)), "setting", message)
  }

  /// Whether the message is about IPv4 or IPv6, or too short to tell.
  private static func isFollowed(_ message: Message) -> Bool {
    message.payload.uint8.map { AddressFamily(netlink: $0) != nil } ?? true
  }
}
