import Connectivity
import ConnectivityRules

extension FlowReader {
  /// Reads the state of a flow that was made on a path.
  ///
  /// - Parameters:
  ///   - question: The lookup with everything that is specific to the flow.
  ///   - router: The first gateway that the flow was seen to use on its link, or `nil` for the
  ///     path's gateway.
  ///   - flowPath: The kernel's answer to `question`. It is updated if it changes while the former
  ///     link is examined, so that a restored path does not count as a better path (K8).
  func reading(
    of question: Destination, madeOn made: KernelPath, by router: IPAddress? = nil,
    _ flowPath: inout FlowPath
  ) throws(KernelUnavailable) -> FlowReading {
    let router = router ?? made.gateway
    for _ in 0..<Self.maxRepetitions {
      let reading = try self.readOnce(question, madeOn: made, by: router, flowPath)
      guard reading.formerLink == .withRoute else { return reading }
      let answer = try self.view.routeAnew(to: question)
      if answer == flowPath.answer { return reading }
      flowPath = try self.flowPath(to: question, answer)
    }
    return try self.readOnce(question, madeOn: made, by: router, flowPath)
  }

  private static let maxRepetitions = 3

  private func readOnce(
    _ question: Destination, madeOn made: KernelPath, by router: IPAddress?, _ flowPath: FlowPath
  ) throws(KernelUnavailable) -> FlowReading {
    let before = made.chain.first?.index
    let now = flowPath.judged.chain.first?.index
    var reading = FlowReading(
      flowPath.judged, network: flowPath.network,
      isSourceAssignedByVPN: flowPath.isSourceAssignedByVPN,
      guesses: flowPath.guesses)
    if case .route(let route) = flowPath.answer { reading.isLocal = route.kind == .local }
    reading.isLocal = reading.isLocal || question.address.isLoopback
    if let source = question.source, !source.isLoopback {
      // Usually the address is still on the flow's link, and looking there takes one query.
      if let before, before != 0 { _ = try self.view.address(source, on: before) }
      let owner = try self.view.owner(of: source)
      if owner == nil { reading.sourceLoss = try self.sourceLoss(question, madeOn: made) }
      reading.isSourceElsewhere = !made.chain.contains { $0.index == owner }
      if reading.isSourceElsewhere, let owner {
        reading.otherSourceLink = try self.otherLink(owner, than: flowPath)
      }
    }
    // A flow without a source address has not used a path yet, so it cannot lose one.
    guard question.source != nil, !reading.isSourceGone, let before, before != 0 else {
      return reading
    }
    // The remote address has moved to or from this machine, and may move back.
    if now != before, try self.isLoopback(before) != reading.isLocal {
      reading.formerLink = .withoutRoute
    }
    guard !reading.isLocal, reading.formerLink == nil else { return reading }
    // For IPv4 traffic bound to a link, the kernel invents a route of table 0 if no table has a
    // route any more.
    if flowPath.judged.table == 0, made.table != 0, made.table != nil {
      reading.path = .unsatisfied(.noRoute)
    }
    if reading.path.status == .satisfied {
      if now == before {
        reading.alternative = try self.alternative(question, flowPath, by: router)
        reading.areRepliesRefused = try self.areRepliesRefused(
          question, flowPath, reading.alternative)
      } else {
        reading.formerLink = try self.formerLink(
          before, question, flowPath, isTied: !reading.isSourceElsewhere)
      }
    } else if now != before, !reading.isSourceElsewhere, try self.isDown(before) {
      reading.formerLink = .failed
    }
    return reading
  }

  /// Returns the state of the link that owns an address, or `nil` if the path uses that link.
  private func otherLink(
    _ owner: UInt32, than flowPath: FlowPath
  ) throws(KernelUnavailable) -> FlowReading.SourceLink? {
    guard !flowPath.judged.chain.contains(where: { $0.index == owner }),
      let link = try self.view.link(owner)?.link, !link.flags.contains(.loopback)
    else { return nil }
    return link.state == .up ? .working : .failed
  }

  /// Returns whether the source address of `question`, which this machine has lost, may come back.
  func sourceLoss(
    _ question: Destination, madeOn made: KernelPath
  ) throws(KernelUnavailable) -> FlowReading.SourceLoss {
    guard let index = made.chain.first?.index else { return .final }
    guard let link = try self.view.link(index)?.link else {
      return try self.mayBeMadeAgain(made, for: question) ? .mayReturn : .final
    }
    guard link.state == .up else { return .final }
    guard case .route(let route) = try self.view.route(to: question.ofNew),
      route.outLink == index, let source = route.source, source != question.source
    else { return .mayReturn }
    // A modem or a tunnel has only one network, and a new address there replaces the lost address.
    guard link.hasNeighbours else { return .final }
    var (lost, new) = (made, made)
    lost.source = question.source
    new.source = source
    new.sourcePrefixLength = try self.view.address(source, on: index)?.prefixLength
    return new.isOfSameSubnet(as: lost) ? .final : .mayReturn
  }

  /// Whether a removed link may be recreated with its address. A program must have created the
  /// link, and no link of its name may have another address of the flow's family.
  private func mayBeMadeAgain(
    _ made: KernelPath, for question: Destination
  ) throws(KernelUnavailable) -> Bool {
    guard self.awaitsRemadeLinks, let former = made.chain.first,
      self.view.subscriptions.removedLinks.contains(former.index)
    else { return false }
    guard let again = try self.view.links().first(where: { $0.link.name == former.name }) else {
      return true
    }
    return try !self.view.addresses().contains {
      $0.link == again.link.index && $0.address.family == question.address.family
        && !$0.address.isLinkLocal
    }
  }

  /// Returns how a former source address of new connections was lost, or `nil` if this machine
  /// still has it.
  func loss(
    of former: InvalidationDetector.AddressOnLink, to destination: Destination
  ) throws(KernelUnavailable) -> FlowReading.SourceLoss? {
    guard try self.view.owner(of: former.address) == nil else { return nil }
    var question = destination
    question.source = former.address
    let made = KernelPath(
      status: .satisfied, chain: [former.link], source: former.address,
      sourcePrefixLength: former.prefixLength)
    return try self.sourceLoss(question, madeOn: made)
  }

  private func isLoopback(_ link: UInt32) throws(KernelUnavailable) -> Bool {
    try self.view.link(link)?.link.flags.contains(.loopback) ?? false
  }

  private func isDown(_ link: UInt32) throws(KernelUnavailable) -> Bool {
    try self.view.link(link).map { $0.link.state == .down } ?? true
  }

  /// Returns the state of a link that the flow's path used before.
  ///
  /// - Parameter isTied: Whether the flow's address belongs to that link, or to a link below it.
  private func formerLink(
    _ link: UInt32, _ question: Destination, _ flowPath: FlowPath, isTied: Bool
  ) throws(KernelUnavailable) -> FlowReading.FormerLink {
    let owner = try question.source.flatMap { (source) throws(KernelUnavailable) in
      try self.view.owner(of: source)
    }
    // The flow is untied if its address is on the link that its traffic uses now.
    if let source = question.source, let now = flowPath.judged.chain.first?.index {
      let isThere = try self.view.address(source, on: now) != nil
      if isThere || owner == now { return .untied }
      let isGiven = try self.isGiven(source, to: question, on: now, isSet: isTied)
      if isGiven { return .untied }
    }
    // With several nexthops, each is correct. But if the flow's address belongs to the link and the
    // query has the flow's port, the kernel must keep choosing that nexthop. IPv6 skips a nexthop
    // if its router seems silent, but the connection keeps that nexthop while the router works
    // (rt6_score_route).
    let isUp = try self.view.link(link)?.link.state == .up
    let isOwn = owner == link && question.transport?.localPort ?? 0 != 0
    if !isOwn || isUp && question.address.family == .ipv6, try self.isLeg(link, of: question) {
      return isOwn ? .leg : .untied
    }
    guard isUp else { return isTied ? .failed : .withoutRoute }
    var bound = question
    bound.outLink = link
    guard case .route(let route) = try self.view.certainRoute(to: bound), route.kind == .unicast,
      route.table != 0, route.outLink == link,
      try self.flowPath(to: bound).judged.status == .satisfied
    else { return .withoutRoute }
    return self.removals.concern(link, question.address) ? .withWorseRoute : .withRoute
  }

  /// Whether the route to a destination spreads traffic over several links, including `link`. If
  /// the route has more nexthops than the kernel shows, a lookup bound to `link` must return such a
  /// route, too.
  private func isLeg(
    _ link: UInt32, of question: Destination
  ) throws(KernelUnavailable) -> Bool {
    guard let entry = try self.view.entry(for: question), entry.isSpread else { return false }
    guard entry == .oversized else { return entry.legs.contains(link) }
    var bound = question
    bound.outLink = link
    guard case .route(let route) = try self.view.route(to: bound), route.outLink == link
    else { return false }
    return try self.view.entry(for: bound) == .oversized
  }

  /// Whether the kernel gives new connections this source address although the link does not have
  /// it. A router may use an address of its loopback link. An IPsec VPN may assign one on any link.
  ///
  /// - Parameter isSet: Whether only an address that the route itself sets counts. On a link
  ///   without an address, the kernel borrows one from any other link.
  private func isGiven(
    _ source: IPAddress, to question: Destination, on link: UInt32, isSet: Bool
  ) throws(KernelUnavailable) -> Bool {
    let new = question.ofNew
    guard case .route(let route) = try self.view.certainRoute(to: new), route.kind == .unicast,
      route.outLink == link, route.source == source
    else { return false }
    if !isSet { return true }
    return try self.view.entry(for: new)?.source == source
  }

  /// Returns the path or subnet that new connections get, or `nil` if the flow uses it, too.
  private func alternative(
    _ question: Destination, _ flowPath: FlowPath, by router: IPAddress?
  ) throws(KernelUnavailable) -> FlowReading.Alternative? {
    guard case .route(let own) = flowPath.answer, own.kind == .unicast, let source = question.source
    else { return nil }
    let key = try self.key(flowPath.answer, question)
    if self.lastUsual == key { return nil }
    if self.usual.contains(key) {
      self.lastUsual = key
      return nil
    }
    let new = question.ofNew
    guard case .route(let preferred) = try self.view.route(to: new), preferred.kind == .unicast
    else { return nil }
    let isOwnRoute = preferred.gateway == own.gateway && preferred.table == own.table
    if preferred.outLink != own.outLink {
      guard try self.view.link(preferred.outLink)?.link.state == .up,
        try !self.isLegOfSame(new, question)
      else { return nil }
      return .init(link: preferred.outLink, source: preferred.source, isKept: true)
    }
    var other = flowPath.judged
    other.source = preferred.source
    other.sourcePrefixLength = try preferred.source.flatMap { (source) throws(KernelUnavailable) in
      try self.view.address(source, on: preferred.outLink)?.prefixLength
    }
    // Sending from another link's address is the application's own choice.
    guard flowPath.judged.sourcePrefixLength != nil, other.sourcePrefixLength != nil,
      !other.isOfSameSubnet(as: flowPath.judged)
    else {
      // New connections of all flows on this path get the same route and source.
      if isOwnRoute, preferred.source == source { self.usual.insert(key) }
      return nil
    }
    // A flow keeps its path despite another source subnet if it uses the same router, because a
    // router forwards all prefixes of the link. In IPv6, the source of new connections changes with
    // each temporary address (RFC 8981). It also changes when a prefix is deprecated while its
    // addresses stay valid (RFC 4862, 5.5.4). In IPv4, it changes when an address moves between
    // machines (VRRP), or when a route sets it (`src`).
    let isOfSameRouter = router == own.gateway
    // With several nexthops, each connection uses one of them and its address.
    let isSpread = try self.view.entry(for: new)?.isSpread ?? false
    return .init(
      link: preferred.outLink, source: preferred.source,
      isKept: !isOwnRoute || isOfSameRouter || isSpread)
  }

  /// Whether the kernel drops replies to the flow because the route to its remote address uses
  /// another link. Checks only flows that may be routed differently from others: those bound to a
  /// link, with a mark, or on another link than new connections.
  private func areRepliesRefused(
    _ question: Destination, _ flowPath: FlowPath, _ alternative: FlowReading.Alternative?
  ) throws(KernelUnavailable) -> Bool {
    guard question.address.family == .ipv4, case .route(let route) = flowPath.answer,
      question.outLink != nil || question.mark != 0
        || alternative.map({ $0.link != route.outLink }) ?? false
    else { return false }
    return try self.view.refusesReplies(to: question, by: route.outLink)
  }

  private func isLegOfSame(
    _ new: Destination, _ own: Destination
  ) throws(KernelUnavailable) -> Bool {
    guard let entry = try self.view.entry(for: new), entry.isSpread else { return false }
    return try self.view.entry(for: own)?.route == entry.route
  }
}
