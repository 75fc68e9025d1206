import Glibc
import TestKit
import TestTraits

/// A host on an IPv6-only Wi-Fi, the router of that network, and beyond it a NAT64 with an IPv4
/// server. Both translators are tayga.
final class TranslatedNetwork {
  /// The place of the host's translator.
  enum Form: CaseIterable, Sendable {
    /// The tun link `clat` has the IPv4 address and the default route, as with clatd.
    case link
    /// The Wi-Fi link has both, as with NetworkManager, whose program in the kernel translates the
    /// link's packets. In this test, the other end of the link translates them.
    case address
  }

  static let server = "203.0.113.1"
  static let source = "192.0.0.1"
  /// The prefix of the NAT64. tayga translates no addresses for documentation below 64:ff9b::/96.
  private static let prefix = "2001:db8:64::/96"

  let lab: Laboratory
  private let form: Form
  private let internet: NetworkNamespace
  private var translator: RunningCommand?
  private var nat64: RunningCommand?

  /// The link with the IPv4 address.
  private var link: String { self.form == .link ? "clat" : "wlan0" }
  private var ownerOfTranslator: NetworkNamespace {
    self.form == .link ? self.lab.namespace : self.lab.outside
  }

  /// Connects the host to the network `a`, and starts connd.
  init(_ form: Form, grace: String = "1s") throws {
    try TestSize.needsAll("tayga")
    self.form = form
    self.lab = try Laboratory(
      ipv6: true, configuration: Uplinks.media + "grace: {route: \(grace), wifi: \(grace)}\n")
    self.internet = try NetworkNamespace()
    for namespace in [self.lab.namespace, self.lab.outside, self.internet] {
      try namespace.set("net/ipv6/conf/default/accept_dad", "0")
      try namespace.set("net/ipv6/conf/all/forwarding", "1")
    }
    try self.lab.addLink("wlan0")
    try self.lab.outside.ip("address add fe80::1/64 dev wlan0 nodad")
    try self.connectInternet()
    try self.prepareTranslator()
    try self.enter("a")
    try self.lab.namespace.ip("-6 route add default via fe80::1 dev wlan0")
    try self.lab.start()
  }

  deinit { for command in [self.translator, self.nat64] { command?.signal(SIGKILL) } }

  private func connectInternet() throws {
    let router = self.lab.outside
    try router.ip("link add up0 type veth peer name up0 netns \(self.internet.name)")
    for (namespace, address) in [(router, "2001:db8:f::1"), (self.internet, "2001:db8:f::2")] {
      try namespace.ip("link set up0 up")
      try namespace.ip("address add \(address)/64 dev up0 nodad")
    }
    try router.ip("-6 route add default via 2001:db8:f::2")
    try self.internet.ip("-6 route add default via 2001:db8:f::1")
    try self.internet.ip("address add \(Self.server)/32 dev lo")
    try self.internet.ip("tuntap add nat64 mode tun")
    try self.internet.ip("link set nat64 up")
    try self.internet.ip("address add 192.168.254.1/32 dev nat64")
    try self.internet.ip("route add 192.168.255.0/24 dev nat64")
    try self.internet.ip("-6 route add \(Self.prefix) dev nat64")
    self.nat64 = try self.startTayga(
      "nat64", in: self.internet,
      "ipv4-addr 192.168.255.1\nipv6-addr 2001:db8:f::64\ndynamic-pool 192.168.255.0/24\n")
  }

  private func prepareTranslator() throws {
    let (host, router) = (self.lab.namespace, self.lab.outside)
    try self.ownerOfTranslator.ip("tuntap add clat mode tun")
    try self.ownerOfTranslator.ip("link set clat up")
    try host.ip("address add \(Self.source)/32 dev \(self.link)")
    switch self.form {
    case .link: try host.ip("route add default dev clat")
    case .address:
      try host.ip("-4 route add default via inet6 fe80::1 dev wlan0")
      try router.set("net/ipv4/ip_forward", "1")
      try router.ip("address add 192.0.2.99/32 dev lo")
      try router.ip("route add \(Self.source)/32 dev wlan0")
      try router.ip("route add default dev clat")
    }
  }

  private func startTayga(
    _ link: String, in namespace: NetworkNamespace, _ settings: String
  ) throws -> RunningCommand {
    let configuration = try self.lab.directory.write(
      "tun-device \(link)\nprefix \(Self.prefix)\ndata-dir \(self.lab.directory.path)/\(link)\n"
        + settings, to: "\(link).conf")
    try Command.run(["mkdir", "-p", "\(self.lab.directory.path)/\(link)"])
    let command = try namespace.spawn(["tayga", "--nodetach", "--config", configuration])
    try waitUntil("tayga has opened \(link)") {
      try namespace.ip("link show \(link)").contains("LOWER_UP")
    }
    return command
  }

  // MARK: - Steps

  /// Gives the host the prefix of a network, and lets the router and the translator use it.
  func enter(_ network: String) throws {
    try self.routePrefix(of: network)
    try self.lab.namespace.ip("address add 2001:db8:\(network)::2/64 dev wlan0 nodad")
    try self.translate(by: network)
  }

  /// Lets the router send packets for the prefix of a network to the host.
  func routePrefix(of network: String) throws {
    let router = self.lab.outside
    try router.ip("-6 route replace 2001:db8:\(network)::/64 dev wlan0")
    let translated = "2001:db8:\(network)::c0/127"
    switch self.form {
    case .link:
      try router.ip("-6 route replace \(translated) via 2001:db8:\(network)::2 dev wlan0")
    case .address: try router.ip("-6 route replace \(translated) dev clat")
    }
  }

  /// Lets the router forget the prefix of a network.
  func forgetPrefix(of network: String) throws {
    for length in ["c0/127", "/64"] {
      try self.lab.outside.ip("-6 route del 2001:db8:\(network)::\(length)")
    }
  }

  /// Starts the translator again, with an address of a network.
  func translate(by network: String) throws {
    if let translator = self.translator {
      translator.signal(SIGKILL)
      try translator.wait()
    }
    if self.form == .link {
      try self.lab.namespace.ip("-6 route replace 2001:db8:\(network)::c0/127 dev clat")
    }
    self.translator = try self.startTayga(
      "clat", in: self.ownerOfTranslator,
      "ipv4-addr 192.0.0.2\nipv6-addr 2001:db8:\(network)::c0\n"
        + "map \(Self.source) 2001:db8:\(network)::c1\n")
  }

  /// Loses all answers of the server.
  func loseAnswers() throws { try self.internet.ip("-6 route del default") }

  func guardedFlow() throws -> GuardedFlow {
    try GuardedFlow(self.lab, to: Self.server, in: self.internet)
  }
}
