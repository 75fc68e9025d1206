import Connectivity

/// Reads what the kernel shows of a flow (I1 to I5): its path, whether what it was made on is still there, and the network
/// behind it.
struct FlowReader {
  let classifier: PathClassifier
  let gateways: Gateways

  /// What a flow was made on, and has to be compared with.
  struct Baseline {
    /// The path at that time.
    var path: Path
    /// How many links of its chain the flow depends on: those below a tunnel may move (I5).
    var depth: Int
    /// The flow's own address, and the link that has it.
    var source: IPAddress?
    var sourceLink: UInt32?
  }

  /// The path for a flow that was made on another. What is not in its tunnel yet gains nothing by one that leads nowhere.
  func path(_ facts: PathFacts, for made: Path?) -> Path {
    let isInside = made?.chain.first.map { $0.index == facts.links.first?.link.index } ?? false
    return isInside ? self.path(facts) : self.classifier.path(facts)
  }

  /// The path, of which the status is that of the part that a flow on it depends on.
  func path(_ facts: PathFacts) -> Path {
    var path = self.classifier.path(facts)
    guard path.status == .requiresConnection, facts.links.contains(where: \.isTunnel) else {
      return path
    }
    let upper = self.classifier.path(facts.upToTunnel)
    path.status = upper.status
    path.reason = upper.reason
    return path
  }

  /// How many links of the chain a flow depends on.
  static func depth(_ facts: PathFacts) -> Int { facts.upToTunnel.links.count }

  /// What the facts show of a flow.
  func reading(
    _ facts: PathFacts, of baseline: Baseline, to destination: Destination, path: Path,
    network: NetworkIdentity, from kernel: some Kernel
  ) throws(KernelUnavailable) -> FlowReading {
    var reading = FlowReading(path, network: network)
    if case .route(let route) = facts.answer { reading.isLocal = route.kind == .local }
    reading.isLocal = reading.isLocal || destination.address.isLoopback
    reading.isInTunnel = facts.links.contains(where: \.isTunnel)
    reading.isSourceGone = try self.isSourceGone(baseline, path, from: kernel)
    reading.isLinkLost = try self.isLinkLost(baseline, path, from: kernel)
    if !reading.isSourceGone, !reading.isLinkLost, path.status == .satisfied,
      let source = baseline.source, let link = baseline.path.chain.first?.index,
      link != path.chain.first?.index
    {
      reading.isPinned = try self.isPinned(destination, source, to: link, from: kernel)
    }
    return reading
  }

  private func isSourceGone(
    _ baseline: Baseline, _ path: Path, from kernel: some Kernel
  ) throws(KernelUnavailable) -> Bool {
    guard let source = baseline.source, !source.isLoopback else { return false }
    if path.status == .satisfied, path.source == source { return false }
    // An address that is not known to be on the out-link is not missed there: unnumbered links borrow one.
    if baseline.sourceLink == nil, baseline.path.sourcePrefixLength == nil { return false }
    guard let link = baseline.sourceLink ?? baseline.path.chain.first?.index else { return false }
    if path.source == source { return try kernel.address(source, on: link) == nil }
    // The kernel takes an address away before its routes (__inet_del_ifa, ipv6_del_addr). Who saw the routes gone has yet to
    // read that the address is.
    return try !kernel.hasAddress(source, on: link)
  }

  /// Whether a link that the flow depends on is gone or set down; or has no carrier, while the traffic goes elsewhere.
  private func isLinkLost(
    _ baseline: Baseline, _ path: Path, from kernel: some Kernel
  ) throws(KernelUnavailable) -> Bool {
    for link in baseline.path.chain.prefix(baseline.depth) where link.index != 0 {
      let isUsed = path.chain.contains { $0.index == link.index }
      if isUsed, path.status == .satisfied { continue }
      guard let facts = try kernel.link(link.index), facts.link.state != .down else { return true }
      if !isUsed, path.status == .satisfied, facts.link.state != .up { return true }
    }
    return false
  }

  /// Whether a rule for the flow's own address sends it by its old link.
  private func isPinned(
    _ destination: Destination, _ source: IPAddress, to link: UInt32, from kernel: some Kernel
  ) throws(KernelUnavailable) -> Bool {
    var destination = destination
    destination.source = source
    guard case .route(let route) = try kernel.route(to: destination) else { return false }
    return route.outLink == link
  }

  /// The gateway whose hardware address tells the network behind a path's link; for a destination on the link, too.
  func gateway(_ path: Path, _ facts: PathFacts) -> Gateway? {
    guard let link = facts.links.first?.link, link.hasNeighbours else { return nil }
    let address = path.gateway ?? self.gateways.address(on: link.index, path.source?.family)
    return address.map { Gateway(link: link.index, address: $0) }
  }

  /// What is known of the network behind a path's link.
  func network(
    _ path: Path, _ facts: PathFacts, from kernel: some Kernel
  ) throws(KernelUnavailable) -> NetworkIdentity {
    guard let first = facts.links.first?.link else { return NetworkIdentity() }
    let prefix = path.source.flatMap { source in
      path.sourcePrefixLength.flatMap { IPPrefix(source, length: $0) }
    }
    return NetworkIdentity(
      gateway: path.gateway,
      gatewayHardwareAddress: try self.gateway(path, facts).flatMap {
        (gateway) throws(KernelUnavailable) in
        try self.gateways.hardwareAddress(of: gateway, from: kernel)
      },
      hasHardwareAddresses: first.hasNeighbours, prefix: prefix)
  }
}

extension Link {
  /// Whether the link has neighbours with hardware addresses: not a modem's, nor a tunnel's.
  fileprivate var hasNeighbours: Bool {
    !self.hardwareAddress.isEmpty && !self.flags.contains(.pointToPoint)
  }
}
