import Connectivity

/// The way to a destination, shared by all that the kernel sends alike: one object, for ten thousand flows hold it at once.
final class Way: Sendable {
  let facts: PathFacts
  /// What a client is told.
  let shown: Path
  /// What the flows on it are judged by.
  let judged: Path
  /// How many links of the chain its flows depend on.
  let depth: Int
  /// The gateway that tells the network.
  let gateway: Gateway?
  let network: NetworkIdentity

  init(
    facts: PathFacts, shown: Path, judged: Path, depth: Int, gateway: Gateway?,
    network: NetworkIdentity
  ) {
    self.facts = facts
    self.shown = shown
    self.judged = judged
    self.depth = depth
    self.gateway = gateway
    self.network = network
  }
}

/// One look at the kernel for many flows: what is the same for all of them is asked and judged once.
final class Look {
  private let reader: PathReader
  private let flows: FlowReader
  private let kernel: RememberingKernel
  private var ways: [WayKey: Way] = [:]

  private struct WayKey: Hashable {
    var answer: RouteAnswer
    /// A source address is good for some destinations only.
    var isLinkLocal: Bool
  }

  init(_ reader: PathReader, _ gateways: Gateways, _ kernel: some Kernel) {
    self.reader = reader
    self.flows = FlowReader(classifier: reader.classifier, gateways: gateways)
    self.kernel = RememberingKernel(kernel)
  }

  func way(to destination: Destination, _ answer: RouteAnswer) throws(KernelUnavailable) -> Way {
    var key = WayKey(answer: answer, isLinkLocal: destination.address.isLinkLocal)
    if let way = self.ways[key] { return way }
    let facts = try self.reader.facts(about: destination, answer: answer, from: self.kernel)
    self.flows.gateways.use(facts)
    let judged = self.flows.path(facts)
    let way = Way(
      facts: facts, shown: self.reader.classifier.path(facts), judged: judged,
      depth: FlowReader.depth(facts), gateway: self.flows.gateway(judged, facts),
      network: try self.flows.network(judged, facts, from: self.kernel))
    // An answer that was no longer true is that of this destination only.
    key.answer = facts.answer
    self.ways[key] = way
    return way
  }

  func reading(
    of baseline: FlowReader.Baseline, _ way: Way, to destination: Destination
  ) throws(KernelUnavailable) -> FlowReading {
    let isOn = baseline.path.chain.first?.index == way.judged.chain.first?.index
    return try self.flows.reading(
      way.facts, of: baseline, to: destination, path: isOn ? way.judged : way.shown,
      network: way.network, from: self.kernel)
  }

  /// A flow is on this path, of which it is bound to a link, perhaps. Links that are not there, as a client may invent them, are
  /// none to watch.
  func use(_ path: Path, boundTo link: UInt32?) throws(KernelUnavailable) {
    var links = link.map { [$0] } ?? []
    for link in path.chain where try self.kernel.link(link.index) != nil {
      links.append(link.index)
    }
    self.flows.gateways.bystanders.use(links)
  }

  /// How many links of a path those depend on who were made on it.
  func depth(of path: Path) throws(KernelUnavailable) -> Int {
    try self.reader.depth(of: path.chain, from: self.kernel)
  }

  /// The link that has an address; `nil` where none has.
  func link(
    of address: IPAddress, likely: UInt32?
  ) throws(KernelUnavailable) -> UInt32? {
    if let likely, likely != 0, try self.kernel.address(address, on: likely) != nil {
      return likely
    }
    return try self.kernel.addresses().first { $0.address == address }?.link
  }

  /// The path of a connection, which by its own address is on another link than the one that is known of it: it was told of
  /// a better path that it does not take, or had none when it was told.
  func ownPath(
    of flow: Flow, _ sourceLink: UInt32?, _ made: Path
  ) throws(KernelUnavailable) -> Path? {
    guard let local = flow.local, let sourceLink, made.source != local,
      made.chain.first?.index != sourceLink, let link = try self.kernel.link(sourceLink)?.link,
      !link.holdsOnlyAddresses
    else { return nil }
    let answer = RouteAnswer.route(Route(outLink: sourceLink, source: local))
    let facts = try self.reader.facts(about: flow.destination, answer: answer, from: self.kernel)
    self.flows.gateways.use(facts)
    return self.flows.path(facts)
  }

  /// Whether the traffic of a flow leaves by another link than the one that has its own address, so that no answer comes
  /// back; unless a rule sends it by that link, or that is none for traffic.
  func isElsewhere(
    _ flow: Flow, _ sourceLink: UInt32?, _ way: Way
  ) throws(KernelUnavailable) -> Bool {
    guard let local = flow.local, let sourceLink, way.shown.status == .satisfied,
      way.judged.source != local, let outLink = way.judged.chain.first?.index,
      outLink != sourceLink, case .route(let route) = way.facts.answer, route.kind == .unicast,
      let link = try self.kernel.link(sourceLink)?.link, !link.holdsOnlyAddresses
    else { return false }
    var destination = flow.destination
    destination.source = local
    guard case .route(let pinned) = try self.kernel.route(to: destination) else { return true }
    return pinned.outLink != sourceLink
  }
}

extension Link {
  /// Whether nothing is sent by it: addresses that a machine has whichever way it goes are on `lo`, or on a dummy.
  fileprivate var holdsOnlyAddresses: Bool {
    self.flags.contains(.loopback) || self.kind == "dummy" || self.kind == "vrf"
  }
}
