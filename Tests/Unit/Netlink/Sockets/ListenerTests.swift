import CLinux
import Connectivity
import Glibc
import TestKit
import Testing

@testable import Netlink

/// Messages of a real kernel. They are in the socket when the command that caused them ends.
@Suite(
  "Kernel notifications",
  .enabled(if: NetworkNamespace.isEnabled, "network namespaces: \(NetworkNamespace.obstacle ?? "")")
)
struct ListenerTests {
  private func makeNamespace() throws -> NetworkNamespace {
    let namespace = try NetworkNamespace()
    try namespace.ip("link add ve0 index 10 type veth peer name ve1 index 21")
    // Prevents a later message that an address is unique.
    for link in ["ve0", "ve1"] { try namespace.ip("link set \(link) up addrgenmode none") }
    try namespace.ip("addr add 192.0.2.2/24 dev ve0")
    // The kernel processes the carrier later (linkwatch).
    let requester = try namespace.perform { try Requester() }
    let maxWait = Patience(.seconds(20))
    for link in [10, 21] as [UInt32] {
      while try requester.link(index: link)?.operationalState != .up, !maxWait.isOver {
        sched_yield()
      }
    }
    return namespace
  }

  private func drain(_ listener: Listener) throws -> [KernelEvent] {
    var events: [KernelEvent] = []
    while try listener.drain(into: &events, limit: 100) {}
    return events
  }

  @Test("Links, addresses, routes, rules and nexthops are reported")
  func everything() throws {
    let namespace = try self.makeNamespace()
    let listener = try namespace.perform { try Listener(watching: FilterSpec()) }
    #expect(fcntl(listener.fileDescriptor, F_GETFD) & FD_CLOEXEC != 0)
    #expect(fcntl(listener.fileDescriptor, F_GETFL) & O_NONBLOCK != 0)
    func isIPv6(_ event: KernelEvent) -> Bool {
      if case .address(let address) = event { "\(address.address)" == "2001:db8::2" } else { false }
    }
    for words in [
      "addr add 192.0.2.3/24 dev ve0", "addr del 192.0.2.3/24 dev ve0",
      "addr add 2001:db8::2/64 dev ve0 nodad",
    ] { try namespace.ip(words) }
    // The kernel reports it later (addrconf_dad_work), and not at all if the link is gone by then.
    var events: [KernelEvent] = []
    let maxWait = Patience(.seconds(20))
    while !events.contains(where: isIPv6), !maxWait.isOver {
      events += try self.drain(listener)
      sched_yield()
    }
    for words in [
      "rule add fwmark 7 lookup 1000", "rule del fwmark 7 lookup 1000",
      "-6 rule add fwmark 7 lookup 1000",
      "route add default via 192.0.2.1", "route replace default via 192.0.2.9", "route del default",
      "route add default via 2001:db8::1 dev ve0",
      "nexthop add id 7 via 192.0.2.1 dev ve0", "nexthop del id 7", "link set ve0 down",
      "link del ve0",
    ] { try namespace.ip(words) }
    events += try self.drain(listener)
    func has(_ matches: (KernelEvent) -> Bool) -> Bool { events.contains(where: matches) }
    #expect(
      has {
        if case .address(let address) = $0 { "\(address.address)" == "192.0.2.3" } else { false }
      })
    #expect(
      has {
        if case .addressRemoved(let address) = $0 {
          "\(address.address)" == "192.0.2.3"
        } else {
          false
        }
      })
    #expect(has(isIPv6))
    #expect(events.contains(.rule(.ipv4)))
    #expect(events.contains(.ruleRemoved(.ipv4)))
    #expect(events.contains(.rule(.ipv6)))
    #expect(events.contains(.nexthop(id: 7)))
    #expect(events.contains(.nexthopRemoved(id: 7)))
    #expect(
      has {
        if case .route(let change, replaced: false) = $0 {
          "\(change.route.prefix)" == "0.0.0.0/0"
        } else {
          false
        }
      })
    #expect(
      has {
        if case .route(let change, replaced: true) = $0 {
          "\(change.route.prefix)" == "0.0.0.0/0"
        } else {
          false
        }
      })
    #expect(
      has {
        if case .routeRemoved(let change) = $0 {
          "\(change.route.prefix)" == "0.0.0.0/0"
        } else {
          false
        }
      })
    #expect(
      has {
        if case .route(let change, _) = $0 { "\(change.route.prefix)" == "::/0" } else { false }
      })
    #expect(
      has {
        if case .link(let link) = $0 {
          link.index == 10 && !link.flags.contains(.up)
        } else {
          false
        }
      })
    #expect(has { if case .linkRemoved(let link) = $0 { link.index == 21 } else { false } })
    #expect(!has { if case .malformed = $0 { true } else { false } })
  }

  @Test("D6 unrelated routes are dropped in the kernel, and relevant ones pass")
  func filter() throws {
    let namespace = try self.makeNamespace()
    let watched = try [address("203.0.113.5"), address("2001:db8:7::5")]
    let listener = try namespace.perform {
      try Listener(watching: FilterSpec(destinations: watched))
    }
    try namespace.ipBatch(
      (0..<250).flatMap {
        ["route add 10.\($0).0.0/16 via 192.0.2.1", "route add 10.\($0).1.0/24 via 192.0.2.1"]
      })
    try namespace.ipBatch(
      (0..<250).map { "route add 2001:db8:8:\($0)::/64 dev ve0" })
    #expect(try self.drain(listener).isEmpty)
    for words in [
      "route add default via 192.0.2.1", "route add 0.0.0.0/1 via 192.0.2.1",
      "route add 128.0.0.0/1 via 192.0.2.1", "route add 203.0.113.0/24 via 192.0.2.1",
      "route add 203.0.112.0/24 via 192.0.2.1", "route add 203.0.113.5/32 via 192.0.2.1",
      "-6 route add default dev ve0", "-6 route add 2001:db8:7::/48 dev ve0",
      "-6 route add 2001:db8:6::/48 dev ve0", "-6 route add 2001:db8:7::5/128 dev ve0",
      "-6 route add 2001:db8:7::4/128 dev ve0",
    ] { try namespace.ip(words) }
    #expect(
      try self.prefixes(listener) == [
        "0.0.0.0/0", "0.0.0.0/1", "128.0.0.0/1", "203.0.113.0/24", "203.0.113.5/32", "::/0",
        "2001:db8:7::/48", "2001:db8:7::5/128",
      ])

    try listener.watch(FilterSpec(destinations: [address("203.0.112.9")]))
    try namespace.ip("route del 203.0.113.0/24")
    try namespace.ip("route del 203.0.112.0/24")
    #expect(try self.prefixes(listener) == ["203.0.112.0/24"])
  }

  private func prefixes(_ listener: Listener) throws -> [String] {
    try self.drain(listener).compactMap { event in
      switch event {
      case .route(let change, _), .routeRemoved(let change): "\(change.route.prefix)"
      default: nil
      }
    }
  }

  @Test(
    "D6 the kernel accepts a filter for any number of destinations and gateways",
    arguments: [0, 1, 50, 1_000, 20_000])
  func manyDestinations(count: Int) throws {
    let namespace = try self.makeNamespace()
    let destinations = (0..<count).compactMap { number in
      IPAddress(
        bytes: [0x20, 1, 0xD, 0xB8, UInt8(number >> 8 & 0xFF), UInt8(number & 0xFF)]
          + Array(repeating: 1, count: 10))
    }
    let gateways = destinations.map {
      Neighbour($0, link: 10, hardwareAddress: [2, 0, 0, 0, 0, 1])
    }
    let watched = FilterSpec(destinations: destinations, gateways: gateways)
    let listener = try namespace.perform { try Listener(watching: watched) }
    try listener.watch(watched)
    try namespace.ip("route add default via 192.0.2.1")
    #expect(try self.prefixes(listener) == ["0.0.0.0/0"])
  }

  @Test(
    "T3 later links are filtered out, except for exceptions, ports of the given masters, ifbs, and what leads to them"
  )
  func unheardLinks() throws {
    let namespace = try self.makeNamespace()
    try namespace.ip("link add br0 index 12 type bridge")
    let unheard = UnheardLinks(above: 21, except: [40], masters: [12])
    let listener = try namespace.perform { try Listener(watching: FilterSpec(unheard: unheard)) }
    func told(_ words: String..., until last: UInt32? = nil) throws -> Set<UInt32> {
      for words in words { try namespace.ip(words) }
      var told: Set<UInt32> = []
      let maxWait = Patience(.seconds(20))
      repeat {
        told.formUnion(
          try self.drain(listener).compactMap { event in
            switch event {
            case .link(let link), .linkRemoved(let link): link.index
            case .address(let address), .addressRemoved(let address): address.link
            case .route(let change, _), .routeRemoved(let change): change.outLink
            default: nil
            }
          })
      } while last.map { !told.contains($0) } ?? false && !maxWait.isOver
      return told
    }
    try #expect(
      told(
        "link add ve2 index 30 type veth peer name ve3 index 31", "link set ve2 up",
        "link set ve3 up") == [])
    try #expect(told("addr add fe80::77/64 dev ve2 nodad") == [])
    // The kernel adds an IPv6 address later.
    try #expect(told("addr add 2001:db8::77/64 dev ve2 nodad", until: 30) == [30])
    try #expect(told("addr add 192.0.2.77/24 dev ve3") == [31])
    try #expect(told("route add default via 192.0.2.1 dev ve3") == [31])
    // The bridge itself is an older link.
    try #expect(told("link set ve2 master br0").subtracting([12]) == [30])
    _ = try told("link set ve2 nomaster")
    // The kernel processes the carrier later (linkwatch).
    let early: Set<UInt32> = [10, 21]
    var heard = try told("link set ve0 down", "link set ve0 up")
    let maxWait = Patience(.seconds(20))
    while !heard.isSuperset(of: early), !maxWait.isOver { try heard.formUnion(told()) }
    #expect(heard.isSuperset(of: early))
    try #expect(
      told("link add ve4 index 40 type veth peer name ve5 index 41").subtracting(early) == [40])
    try #expect(told("link set ve4 up", "link set ve5 up").contains(40))
    try #expect(told("link del ve4").subtracting(early) == [40])
    try #expect(told("link set ve3 down").subtracting(early).isSubset(of: [31]))
    try #expect(told("link add ifb9 index 50 type ifb") == [50])
    try #expect(told("link set ifb9 up").contains(50))
    try #expect(told("link del ifb9").contains(50))

    try listener.watch(FilterSpec())
    try #expect(told("link set ve3 up").contains(31))
  }

  @Test("A resilient nexthop group reports migrated buckets")
  func buckets() throws {
    let namespace = try self.makeNamespace()
    try namespace.ip("nexthop add id 1 via 192.0.2.1 dev ve0")
    try namespace.ip("nexthop add id 2 via 192.0.2.3 dev ve0")
    do {
      try namespace.ip("nexthop add id 10 group 1/2 type resilient buckets 4 idle_timer 1")
    } catch {
      print("no resilient groups here: \(error)")
      return
    }
    try namespace.ip("route add 10.7.0.0/16 nhid 10")
    let requester = try namespace.perform { try Requester() }
    let destinations = try (0..<200).map { Destination(try address("10.7.0.\($0)")) }
    let listener = try namespace.perform { try Listener(watching: FilterSpec()) }
    var moved: [KernelEvent] = []
    // A bucket unused for a second migrates immediately and without a message: on a busy machine
    // that second can be over.
    for weights in ["1,3/2", "1/2,3", "1,3/2", "1/2,3", "1,3/2", "1/2,3"] where moved.isEmpty {
      _ = try requester.routes(to: destinations)
      try namespace.ip("nexthop replace id 10 group \(weights) type resilient idle_timer 1")
      #expect(try self.drain(listener).contains(.nexthop(id: 10)))
      var waiting = pollfd(fd: listener.fileDescriptor, events: Int16(POLLIN), revents: 0)
      guard poll(&waiting, 1, 3_000) == 1 else { continue }
      moved = try self.drain(listener).filter { $0 == .nexthop(id: 10) }
    }
    #expect(!moved.isEmpty)
  }

  @Test("D8 an overrun is an event, and the listener continues")
  func overrun() throws {
    let namespace = try self.makeNamespace()
    let listener = try namespace.perform {
      try Listener(watching: FilterSpec(), receiveBuffer: 4096)
    }
    try namespace.ipBatch((0..<200).map { "addr add 10.7.0.\($0)/32 dev ve0" })
    #expect(try self.drain(listener).contains(.overrun))
    try namespace.ip("rule add fwmark 7 lookup 1000")
    #expect(try self.drain(listener) == [.rule(.ipv4)])
  }

  @Test("The limit stops the reading, and nothing is lost")
  func limit() throws {
    let namespace = try self.makeNamespace()
    let listener = try namespace.perform { try Listener(watching: FilterSpec()) }
    try namespace.ipBatch((0..<50).map { "rule add fwmark \($0 + 1) lookup 1000" })
    var events: [KernelEvent] = []
    #expect(try listener.drain(into: &events, limit: 20))
    #expect(events.count == 20)
    #expect(try !listener.drain(into: &events, limit: 100))
    #expect(events.count == 50)
  }

  @Test("D8 messages from another process are dropped")
  func foreignSender() throws {
    let namespace = try self.makeNamespace()
    let listener = try namespace.perform { try Listener(watching: FilterSpec()) }
    let sender = try namespace.perform {
      socket(AF_NETLINK, Int32(SOCK_RAW.rawValue), NETLINK_ROUTE)
    }
    defer { close(sender) }
    var target = sockaddr_nl()
    var size = socklen_t(MemoryLayout<sockaddr_nl>.size)
    let result = withUnsafeMutablePointer(to: &target) { target in
      target.withMemoryRebound(to: sockaddr.self, capacity: 1) { target in
        guard getsockname(listener.fileDescriptor, target, &size) == 0 else { return -1 }
        // The socket's name also has the groups, and sending to those is a different case.
        target.withMemoryRebound(to: sockaddr_nl.self, capacity: 1) { $0.pointee.nl_groups = 0 }
        let bytes = LinkCaptures.linkRemoved.bytes
        return sendto(sender, bytes, bytes.count, 0, target, size)
      }
    }
    #expect(result == LinkCaptures.linkRemoved.bytes.count)
    try namespace.ip("rule add fwmark 7 lookup 1000")
    #expect(try self.drain(listener) == [.rule(.ipv4)])
  }

  @Test("D2 a passed socket is used, with its filter and groups")
  func adopted() throws {
    let namespace = try self.makeNamespace()
    let listener = try namespace.perform {
      try Listener(
        adopting: socket(AF_NETLINK, Int32(SOCK_RAW.rawValue), NETLINK_ROUTE),
        watching: FilterSpec())
    }
    #expect(fcntl(listener.fileDescriptor, F_GETFD) & FD_CLOEXEC != 0)
    try namespace.ip("route add 10.1.0.0/16 via 192.0.2.1")
    try namespace.ip("rule add fwmark 7 lookup 1000")
    #expect(try self.drain(listener) == [.rule(.ipv4)])
    #expect(throws: NetlinkError.self) {
      try Listener(
        adopting: socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0), watching: FilterSpec())
    }
    #expect(throws: NetlinkError.self) { try Listener(adopting: -1, watching: FilterSpec()) }
  }
}
