import Connectivity
import ConnectivityRules

/// A link of a test with its addresses and default routes: what a reading shows of them, and the
/// kernel's messages about changes.
struct TestLink: Hashable {
  var index: UInt32
  var name: String
  var medium: NetworkMedium
  /// Routes with a smaller metric win; each link has its own metric, and with it its own subnet.
  var metric: UInt32
  var isUp = true
  var hasCarrier = true
  /// The number of carrier losses, or `nil` if the kernel does not report it.
  var carrierDownCount: UInt32?
  /// The last part of the source address, or `nil` without one.
  var host: [AddressFamily: Int] = [.ipv4: 7, .ipv6: 7]
  var isTentative: [AddressFamily: Bool] = [:]
  /// The last part of the default route's gateway, or `nil` without a default route.
  var gateway: [AddressFamily: Int] = [.ipv4: 1, .ipv6: 1]

  static let wired = TestLink(index: 2, name: "eth0", medium: .wired, metric: 100)
  static let wifi = TestLink(index: 3, name: "wlan0", medium: .wifi, metric: 600)
  static let wifi2 = TestLink(index: 4, name: "wlan1", medium: .wifi, metric: 601)
  static let cellular = TestLink(index: 5, name: "wwan0", medium: .cellular, metric: 700)
  /// A container's end of a veth pair, which no path uses.
  static let noise = TestLink(index: 99, name: "veth99", medium: .unknown, metric: 9)

  /// 10.0.METRIC.HOST or 2001:db8:METRIC::HOST.
  private func address(_ family: AddressFamily, _ host: Int) -> IPAddress? {
    let (high, low) = (UInt8(self.metric / 256), UInt8(self.metric % 256))
    let prefix: [UInt8] = family == .ipv4 ? [10, high, low] : [0x20, 0x01, 0x0d, 0xb8, high, low]
    let zeros = [UInt8](repeating: 0, count: family.bitWidth / 8 - prefix.count - 1)
    return IPAddress(bytes: prefix + zeros + [UInt8(host)])
  }

  func source(_ family: AddressFamily) -> IPAddress? {
    self.host[family].flatMap { self.address(family, $0) }
  }

  func gatewayAddress(_ family: AddressFamily) -> IPAddress? {
    self.gateway[family].flatMap { self.address(family, $0) }
  }

  func route(_ family: AddressFamily, metric: UInt32? = nil) -> MatchedRoute? {
    let any: IPAddress = family == .ipv4 ? "0.0.0.0" : "::"
    return IPPrefix(any, length: 0).map {
      MatchedRoute(prefix: $0, table: 254, priority: metric ?? self.metric)
    }
  }

  /// The observed path if this link's default route is used, or `nil` without one.
  func observed(_ family: AddressFamily) -> CandidatePath? {
    guard let gateway = self.gatewayAddress(family), self.isUp else { return nil }
    var path = KernelPath(
      status: .satisfied, chain: [KernelPath.Link(index: self.index, name: self.name)],
      medium: self.medium, source: self.source(family),
      sourcePrefixLength: Self.prefixLength(family), gateway: gateway, table: 254)
    if !self.hasCarrier {
      path.reason = .noCarrier
    } else if path.source == nil || self.isTentative[family] == true {
      path.reason = .noSourceAddress
    }
    if path.reason != nil { path.status = .requiresConnection }
    return CandidatePath(
      path, route: self.route(family),
      carrierDownCounts: self.carrierDownCount.map { [self.index: $0] } ?? [:])
  }

  /// The prefix length of a link's subnets.
  static func prefixLength(_ family: AddressFamily) -> Int { family == .ipv4 ? 24 : 64 }

  // MARK: - Messages

  var link: Link {
    var flags: LinkFlags = self.isUp ? [.up] : []
    if self.isUp, self.hasCarrier { flags.formUnion([.running, .lowerUp]) }
    var link = Link(
      index: self.index, name: self.name, flags: flags,
      operationalState: self.isUp && self.hasCarrier ? .up : .down,
      carrier: self.isUp && self.hasCarrier)
    link.carrierDownCount = self.carrierDownCount
    return link
  }

  /// The message that wireless drivers send while they scan: the name, and flags that mean nothing.
  var scanNoise: KernelEvent {
    .link(Link(index: self.index, name: self.name, flags: [.up]))
  }

  func address(_ family: AddressFamily, flags: AddressFlags = []) -> Address? {
    self.source(family).map {
      Address($0, prefixLength: Self.prefixLength(family), link: self.index, flags: flags)
    }
  }

  func added(_ family: AddressFamily) -> [KernelEvent] {
    let flags: AddressFlags = self.isTentative[family] == true ? [.tentative] : []
    return self.address(family, flags: flags).map { [.address($0)] } ?? []
  }

  func removed(_ family: AddressFamily) -> [KernelEvent] {
    self.address(family).map { [.addressRemoved($0)] } ?? []
  }

  func change(_ family: AddressFamily, metric: UInt32? = nil) -> RouteChange? {
    guard let route = self.route(family, metric: metric), self.gateway[family] != nil else {
      return nil
    }
    return RouteChange(route, outLink: self.index, gateway: self.gatewayAddress(family))
  }

  func routeAdded(_ family: AddressFamily, metric: UInt32? = nil) -> [KernelEvent] {
    self.change(family, metric: metric).map { [.route($0, replaced: false)] } ?? []
  }

  func routeRemoved(_ family: AddressFamily, metric: UInt32? = nil) -> [KernelEvent] {
    self.change(family, metric: metric).map { [.routeRemoved($0)] } ?? []
  }

  /// The same link after a change.
  func with(_ change: (inout TestLink) -> Void) -> TestLink {
    var link = self
    change(&link)
    return link
  }

  var withoutCarrier: TestLink { self.with { $0.hasCarrier = false } }
}

extension Observation {
  /// An observation of these links, which are in the order of their metrics.
  init(_ links: [TestLink]) {
    func best(_ family: AddressFamily) -> CandidatePath {
      links.lazy.compactMap { $0.observed(family) }.first
        ?? CandidatePath(.unsatisfied(.noRoute))
    }
    self.init(ipv4: best(.ipv4), ipv6: best(.ipv6))
  }
}

extension Instant {
  init(milliseconds: Int) { self.init(sinceStart: .milliseconds(milliseconds)) }

  var milliseconds: Int {
    let (seconds, attoseconds) = self.sinceStart.components
    return Int(seconds) * 1000 + Int(attoseconds / 1_000_000_000_000_000)
  }
}
