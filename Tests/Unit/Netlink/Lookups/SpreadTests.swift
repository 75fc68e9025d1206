import CLinux
import Connectivity
import Glibc
import TestKit
import Testing

@testable import Netlink

/// A multipath route over two links to a router with a host behind it.
@Suite(
  "Legs of multipath routes",
  .enabled(if: NetworkNamespace.isEnabled, "network namespaces: \(NetworkNamespace.obstacle ?? "")")
)
struct SpreadTests {
  private let near: NetworkNamespace
  private let far: NetworkNamespace
  private let requester: Requester

  private static let port: UInt16 = 443

  init() throws {
    self.near = try NetworkNamespace()
    self.far = try NetworkNamespace()
    // Before a link's own address has passed duplicate detection, neighbours are not resolved.
    for namespace in [self.near, self.far] {
      try namespace.run("sysctl", "-qw", "net.ipv6.conf.default.accept_dad=0")
    }
    for (index, number) in [(10, 1), (30, 2)] {
      try self.near.ip(
        "link add ve\(number) index \(index) type veth peer name fe\(number) index \(index + 11) netns \(self.far.name)"
      )
      try self.near.ip("link set ve\(number) up")
      try self.far.ip("link set fe\(number) up")
      try self.near.ip("addr add 192.0.\(number).2/24 dev ve\(number)")
      try self.far.ip("addr add 192.0.\(number).1/24 dev fe\(number)")
      try self.near.ip("addr add 2001:db8:\(number)::2/64 dev ve\(number) nodad")
      try self.far.ip("addr add 2001:db8:\(number)::1/64 dev fe\(number) nodad")
      // Answers go back by the link that the query came in on.
      try self.far.ip(
        "route add 198.51.100.2 via 192.0.\(number).2 dev fe\(number) metric \(number)")
      try self.far.ip(
        "-6 route add 2001:db8:5::2 via 2001:db8:\(number)::2 dev fe\(number) metric \(number)")
    }
    for (namespace, ending) in [(self.near, "2"), (self.far, "9")] {
      try namespace.ip("addr add 198.51.100.\(ending)/32 dev lo")
      try namespace.ip("addr add 2001:db8:5::\(ending)/128 dev lo nodad")
      try namespace.run("sysctl", "-qw", "net.ipv4.fib_multipath_hash_policy=1")
      try namespace.run("sysctl", "-qw", "net.ipv6.fib_multipath_hash_policy=1")
    }
    try self.near.ip(
      "route add 198.51.100.9 nexthop via 192.0.1.1 dev ve1 nexthop via 192.0.2.1 dev ve2")
    try self.near.ip(
      "-6 route add 2001:db8:5::9 nexthop via 2001:db8:1::1 dev ve1 nexthop via 2001:db8:2::1 dev ve2"
    )
    self.requester = try self.near.perform { try Requester() }
  }

  @Test(
    "I3 the predicted leg for a connection's addresses and ports is the one it uses",
    arguments: [AddressFamily.ipv4, .ipv6])
  func leg(family: AddressFamily) throws {
    let local = family == .ipv4 ? "198.51.100.2" : "2001:db8:5::2"
    let remote = family == .ipv4 ? "198.51.100.9" : "2001:db8:5::9"
    let listeners = try [("fe1", 10), ("fe2", 30)].map { name, index in
      (try self.far.perform { try TCPSocket(family, boundTo: name) }, UInt32(index))
    }
    for (listener, _) in listeners {
      #expect(try listener.bind(address(remote), Self.port) && listener.listen())
    }
    var taken: Set<UInt32> = []
    for port in UInt16(40_000)..<40_024 {
      let destination = Destination(
        try address(remote), source: try address(local),
        transport: Transport(UInt8(IPPROTO_TCP), localPort: port, remotePort: Self.port))
      guard case .route(let route) = try self.requester.route(to: destination) else {
        Issue.record("no route")
        return
      }
      let printed = try self.near.ip(
        "route get \(remote) from \(local) ipproto tcp sport \(port) dport \(Self.port)")
      #expect(printed.contains(" dev \(route.outLink == 10 ? "ve1" : "ve2") "), "\(printed)")

      let connection = try self.near.perform { try TCPSocket(family) }
      #expect(try connection.bind(address(local), port))
      #expect(try connection.connect(address(remote), Self.port), "\(errno)")
      let used = listeners.filter { $0.0.hasConnection }.map(\.1)
      #expect(used == [route.outLink], "port \(port)")
      for (listener, _) in listeners where listener.hasConnection { listener.acceptAndClose() }
      taken.insert(route.outLink)
    }
    #expect(taken == [10, 30])
  }
}

/// A TCP socket that is closed with the last reference.
private final class TCPSocket {
  private let descriptor: CInt

  init(_ family: AddressFamily, boundTo link: String? = nil) throws {
    self.descriptor = socket(
      family == .ipv4 ? AF_INET : AF_INET6, Int32(SOCK_STREAM.rawValue), 0)
    guard self.descriptor >= 0 else { throw NetlinkError(operation: "socket", code: errno) }
    guard let link else { return }
    guard
      setsockopt(self.descriptor, SOL_SOCKET, SO_BINDTODEVICE, link, socklen_t(link.utf8.count))
        == 0
    else { throw NetlinkError(operation: "SO_BINDTODEVICE", code: errno) }
  }

  deinit { close(self.descriptor) }

  func bind(_ address: IPAddress, _ port: UInt16) -> Bool {
    withSocketAddress(address, port) { Glibc.bind(self.descriptor, $0, $1) } == 0
  }

  func connect(_ address: IPAddress, _ port: UInt16) -> Bool {
    withSocketAddress(address, port) { Glibc.connect(self.descriptor, $0, $1) } == 0
  }

  func listen() -> Bool { Glibc.listen(self.descriptor, 64) == 0 }

  var hasConnection: Bool {
    var waiting = pollfd(fd: self.descriptor, events: Int16(POLLIN), revents: 0)
    return poll(&waiting, 1, 0) == 1
  }

  func acceptAndClose() { close(accept(self.descriptor, nil, nil)) }
}
