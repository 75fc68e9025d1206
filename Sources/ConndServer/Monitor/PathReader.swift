import Connectivity
import ConnectivityRules

/// Reads from the kernel what a path is made of, and nothing more: the cost does not depend on how many links, addresses
/// or routes there are (D6).
struct PathReader {
  var destinations: DefaultDestination
  var classifier: PathClassifier
  /// By which users' choices are remembered for networks.
  var networkKey = NetworkKey(bytes: [])
  /// The names of the links whose gain is held back (T1).
  var held: Set<String> = []

  /// The path to a destination, as it is to be shown: not by a link whose gain is held back.
  func path(
    to destination: Destination, _ view: KernelView
  ) throws(KernelUnavailable) -> (path: Path, facts: PathFacts) {
    let facts = try self.facts(about: destination, view)
    return try self.pathBesideHeld(self.path(facts, view), facts, to: destination, view)
  }

  /// The path that the facts amount to, with what users say of the network that it leads by.
  func path(_ facts: PathFacts, _ view: KernelView) throws(KernelUnavailable) -> Path {
    let facts = self.believed(facts)
    let path = self.classifier.path(facts)
    guard self.classifier.choices.concernNetworks,
      let network = try self.network(of: path, facts, view)
    else { return path }
    return self.classifier.path(facts, by: network.hash)
  }

  /// The network that a path leads by, below all tunnels, also where that is a guess; `nil` where nothing tells it from others: that of a
  /// modem of which nobody says whose network it is in, one whose router has not answered yet.
  func network(
    of path: Path, _ facts: PathFacts, _ view: KernelView
  ) throws(KernelUnavailable) -> PresentNetwork? {
    let facts = self.believed(facts)
    let links = facts.allLinks
    let names = links.map(\.link.name)
    // What a network costs is what it cost, until it is known that it is another.
    if let link = links.wireless, let wireless = view.wireless.costNetwork(of: link.link.index) {
      return PresentNetwork(
        hash: self.networkKey.hash(of: wireless), name: wireless.name, medium: .wifi, links: names)
    }
    // Its gateway, where it has one, is the modem.
    if let mobile = links.last?.modem?.mobileOperator {
      return PresentNetwork(
        hash: self.networkKey.hash(of: mobile),
        name: mobile.name.isEmpty ? mobile.code : mobile.name, medium: path.medium, links: names)
    }
    guard path.status == .satisfied, !links.contains(where: \.isWireless),
      let gateway = facts.lowestGateway,
      let address = try view.interests.networks.hardwareAddress(
        of: gateway, behind: Array(links.drop { $0.link.index != gateway.link }), view)
    else { return nil }
    return PresentNetwork(
      hash: self.networkKey.hash(ofGateway: address), name: gateway.address.description,
      medium: path.medium, links: names)
  }

  /// All that the kernel says about the way to a destination.
  func facts(
    about destination: Destination, answer: RouteAnswer? = nil, _ view: KernelView
  ) throws(KernelUnavailable) -> PathFacts {
    var answer = if let answer { answer } else { try view.route(to: destination) }
    answer = try self.current(answer, destination, view)
    var facts = PathFacts(destination: destination.address, answer: answer)
    guard case .route(let route) = answer else { return facts }
    let nextHop = Gateway(link: route.outLink, address: route.gateway ?? destination.address)
    try self.followChain(towards: nextHop, into: &facts, view)
    facts.guess = try self.guess(below: facts, view)
    if let source = route.source {
      facts.source = try view.address(source, on: route.outLink)
    }
    return facts
  }

  /// What the kernel says of a destination by the time that it is asked for the address that its answer names: between the two
  /// questions the address may have gone, and others have taken its place. Unnumbered links, which borrow an address, give
  /// the same answer once more.
  private func current(
    _ answer: RouteAnswer, _ destination: Destination, _ view: KernelView
  ) throws(KernelUnavailable) -> RouteAnswer {
    var answer = answer
    guard destination.source == nil else { return answer }
    for _ in 0..<Self.mostRepetitions {
      guard case .route(let route) = answer, route.kind == .unicast, let source = route.source,
        try view.address(source, on: route.outLink) == nil
      else { break }
      let now = try view.routeAnew(to: destination)
      if now == answer { break }
      answer = now
    }
    return answer
  }

  /// Where addresses change faster than that, the messages of it tell.
  private static let mostRepetitions = 3

  /// Appends the out-link and what is below it.
  func followChain(
    towards nextHop: Gateway, into facts: inout PathFacts, _ view: KernelView
  ) throws(KernelUnavailable) {
    var next = try view.link(nextHop.link)
    while let link = next, facts.links.count < Self.deepest,
      !facts.links.contains(where: { $0.link.index == link.link.index })
    {
      facts.links.append(link)
      switch link.below {
      case .nothing:
        next = nil
      case .links(let indexes):
        let learnt = try self.learntPort(of: link, towards: nextHop, view)
        if let port = learnt {
          next = try view.link(port).flatMap { $0.link.master == link.link.index ? $0 : nil }
          // Behind a port that the bridge does not have any more: what is sent goes out of all others now, and guests do not
          // pass it on.
          if next == nil {
            next = try self.port(of: link, among: indexes, view).flatMap {
              self.isGuest($0) ? nil : $0
            }
            if next == nil { facts.brokenBelow = .noCarrier }
          }
        } else {
          next = try self.port(of: link, among: indexes, view)
        }
      case .destination(let end):
        try self.followTunnel(to: end, into: &facts, view)
        return
      }
    }
  }

  /// Appends what is below a tunnel. Of several nexthops, and of rules for source ports, each connection in it takes one of its
  /// own, and nobody knows which: so it is one that carries, as long as there is one.
  private func followTunnel(
    to end: Destination, into facts: inout PathFacts, _ view: KernelView
  ) throws(KernelUnavailable) {
    let above = facts
    let answer = try self.follow(end, into: &facts, view)
    guard facts.isBroken, !above.isBroken else { return }
    for other in try self.otherWays(to: end, than: answer, view) {
      var below = above
      _ = try self.follow(other, into: &below, view)
      if !below.isBroken {
        facts = below
        return
      }
    }
  }

  private func otherWays(
    to end: Destination, than answer: RouteAnswer, _ view: KernelView
  ) throws(KernelUnavailable) -> [Destination] {
    var ways: [Destination] = []
    if case .route(let route) = answer, let legs = try view.entry(for: end)?.legs {
      ways += legs.filter { $0 != route.outLink }.map { leg in
        var bound = end
        bound.outLink = leg
        return bound
      }
    }
    if end.transport?.localPort == 0 {
      ways += Self.sourcePorts.map { port in
        var sent = end
        sent.transport?.localPort = port
        return sent
      }
    }
    return ways
  }

  /// Some of those that a tunnel in UDP sends from, by a hash of what is inside: net.ipv4.ip_local_port_range, as it is at first
  /// (udp_flow_src_port).
  private static let sourcePorts: [UInt16] = [32768, 39826, 46884, 53942, 60999]

  private func follow(
    _ end: Destination, into facts: inout PathFacts, _ view: KernelView
  ) throws(KernelUnavailable) -> RouteAnswer {
    let answer = try view.route(to: end)
    switch answer {
    case .route(let route) where facts.links.contains { $0.link.index == route.outLink }:
      // Into the tunnel itself, by its default route: the kernel drops that. Not so above a bridge, which has other ports.
      let loop = facts.links.drop { $0.link.index != route.outLink }
      if loop.allSatisfy({ $0.device.lowerLinks.count < 2 }) { facts.brokenBelow = .noRoute }
    case .route(let route):
      facts.gatewayBelow = route.gateway.map { Gateway(link: route.outLink, address: $0) }
      let nextHop = Gateway(link: route.outLink, address: route.gateway ?? end.address)
      try self.followChain(towards: nextHop, into: &facts, view)
    case .noRoute(let reason):
      facts.brokenBelow = reason
    // Not to know is not to be offline (K8).
    case .unanswered: break
    }
    return answer
  }

  /// Stacks are shallow; one that is deeper, or that contains itself, is not followed to its end.
  static let deepest = 16

  /// The port of a bridge behind which the next hop is, or was when the bridge knew it last (K6).
  private func learntPort(
    of link: LinkFacts, towards nextHop: Gateway, _ view: KernelView
  ) throws(KernelUnavailable) -> UInt32? {
    guard link.link.kind == "bridge" else { return nil }
    let present = try view.neighbourNow(nextHop.address, on: nextHop.link)?.hardwareAddress
    let last = view.interests.networks.lastHardwareAddress(of: nextHop.address, on: nextHop.link)
    guard let address = present ?? last else { return nil }
    return try view.interests.networks.port(of: address, on: link.link.index, view)
  }

  /// The link below that most likely carries the traffic.
  private func port(
    of link: LinkFacts, among indexes: [UInt32], _ view: KernelView
  ) throws(KernelUnavailable) -> LinkFacts? {
    var indexes = indexes
    if let active = link.link.activePort, try view.link(active)?.link.state != .up,
      !link.device.lowerLinks.isEmpty
    {
      // A bond that has not noticed yet fails over to another one.
      indexes = link.device.lowerLinks
    }
    var ports: [LinkFacts] = []
    // A bridge may have a thousand, most of them guests: the first that leaves no doubt will do.
    for index in indexes.sorted() {
      guard let port = try view.link(index) else { continue }
      if port.link.state == .up, !self.isGuest(port), port.isPlaced { return port }
      ports.append(port)
    }
    func rank(_ port: LinkFacts) -> (Int, Int, Int, UInt32) {
      (
        self.isGuest(port) ? 1 : 0, port.link.state == .up ? 0 : 1, port.isPlaced ? 0 : 1,
        port.link.index
      )
    }
    return ports.min { rank($0) < rank($1) }
  }

  /// Whether a port leads to a virtual machine or a container; the configuration knows better.
  private func isGuest(_ port: LinkFacts) -> Bool {
    guard self.classifier.policy.rule(for: port.link)?.medium == nil else { return false }
    return port.link.kind == "tun" || port.link.kind == "veth" || port.link.kind == "netkit"
  }
}

// MARK: - Links whose gain is held back

extension PathReader {
  /// Whether the way leads over a link whose gain is held back.
  private func isHeld(_ facts: PathFacts) -> Bool {
    facts.links.contains { self.held.contains($0.link.name) }
  }

  /// The path that the facts amount to; where that is a gain that is held back, the best one without the links in question,
  /// and the kernel's own, as one that does not carry traffic yet, where there is none.
  func pathBesideHeld(
    _ path: Path, _ facts: PathFacts, to destination: Destination, _ view: KernelView
  ) throws(KernelUnavailable) -> (path: Path, facts: PathFacts) {
    var path = path
    guard !self.held.isEmpty, path.status == .satisfied, self.isHeld(facts) else {
      return (path, facts)
    }
    var best: (priority: UInt32, path: Path, facts: PathFacts)?
    for link in try view.links()
    where link.link.state == .up && link.link.master == nil
      && !link.link.flags.contains(.loopback) && !self.held.contains(link.link.name)
    {
      var bound = destination
      bound.outLink = link.link.index
      // To IPv4 traffic that is bound to a link the kernel gives a route, of table 0, where no table has one.
      guard case .route(let route) = try view.route(to: bound), route.kind == .unicast,
        route.table != 0
      else { continue }
      // Where only a source leads to it, its entry is none of everybody's.
      let priority = try view.entry(for: bound)?.route?.priority ?? .max
      let other = try self.facts(about: bound, view)
      let candidate = try self.path(other, view)
      guard candidate.status == .satisfied, !self.isHeld(other) else { continue }
      if best.map({ priority < $0.priority }) ?? true { best = (priority, candidate, other) }
    }
    if let best { return (best.path, best.facts) }
    (path.status, path.reason) = (.requiresConnection, .flapping)
    return (path, facts)
  }
}
