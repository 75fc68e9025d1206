import Connectivity
import ConnectivityRules

extension FlowReader {
  /// What there is to see of a flow that was made on a path.
  ///
  /// - Parameters:
  ///   - question: with all that is the flow's own.
  ///   - router: the first that it was seen to go by, on its link; `nil` for that of the path.
  ///   - way: what the kernel answers to that; another, where it answers so by the time that the former link was looked at: a
  ///     way that is back is no better one (K8).
  func reading(
    of question: Destination, madeOn made: Path, by router: IPAddress? = nil,
    _ way: inout FlowPath
  ) throws(KernelUnavailable) -> FlowReading {
    let router = router ?? made.gateway
    for _ in 0..<Self.mostRepetitions {
      let reading = try self.readOnce(question, madeOn: made, by: router, way)
      guard reading.formerLink == .withRoute else { return reading }
      let answer = try self.view.routeAnew(to: question)
      if answer == way.answer { return reading }
      way = try self.way(to: question, answer)
    }
    return try self.readOnce(question, madeOn: made, by: router, way)
  }

  private static let mostRepetitions = 3

  private func readOnce(
    _ question: Destination, madeOn made: Path, by router: IPAddress?, _ way: FlowPath
  ) throws(KernelUnavailable) -> FlowReading {
    let before = made.chain.first?.index
    let now = way.judged.chain.first?.index
    var reading = FlowReading(
      way.judged, network: way.network, isSourceGiven: way.isSourceGiven, guesses: way.guesses)
    if case .route(let route) = way.answer { reading.isLocal = route.kind == .local }
    reading.isLocal = reading.isLocal || question.address.isLoopback
    if let source = question.source, !source.isLoopback {
      // Mostly it is where it was, which is one question.
      if let before, before != 0 { _ = try self.view.address(source, on: before) }
      let owner = try self.view.owner(of: source)
      reading.isSourceGone = owner == nil
      reading.isSourceElsewhere = !made.chain.contains { $0.index == owner }
    }
    // What has no address yet has left nothing: it begins with the first path that there is.
    guard question.source != nil, !reading.isSourceGone, let before, before != 0 else {
      return reading
    }
    // The remote address has moved to this machine, or away from it, and may move back.
    if now != before, try self.isLoopback(before) != reading.isLocal {
      reading.formerLink = .withoutRoute
    }
    guard !reading.isLocal, reading.formerLink == nil else { return reading }
    // To IPv4 traffic that is bound to a link the kernel gives a route, of table 0, where no table has one any more.
    if way.judged.table == 0, made.table != 0, made.table != nil {
      reading.path = .unsatisfied(.noRoute)
    }
    if reading.path.status == .satisfied {
      if now == before {
        reading.alternative = try self.alternative(question, way, by: router)
        reading.areRepliesRefused = try self.areRepliesRefused(
          question, way, reading.alternative)
      } else {
        reading.formerLink = try self.formerLink(
          before, question, way, isTied: !reading.isSourceElsewhere)
      }
    } else if now != before, !reading.isSourceElsewhere, try self.isDown(before) {
      reading.formerLink = .failed
    }
    return reading
  }

  private func isLoopback(_ link: UInt32) throws(KernelUnavailable) -> Bool {
    try self.view.link(link)?.link.flags.contains(.loopback) ?? false
  }

  private func isDown(_ link: UInt32) throws(KernelUnavailable) -> Bool {
    try self.view.link(link).map { $0.link.state == .down } ?? true
  }

  /// What became of a link that the flow's way led over before.
  ///
  /// - Parameter isTied: the flow's address is that link's, or one's below it.
  private func formerLink(
    _ link: UInt32, _ question: Destination, _ way: FlowPath, isTied: Bool
  ) throws(KernelUnavailable) -> FlowReading.FormerLink {
    let owner = try question.source.flatMap { (source) throws(KernelUnavailable) in
      try self.view.owner(of: source)
    }
    // Its address is where it leaves now.
    if let source = question.source, let now = way.judged.chain.first?.index {
      let isThere = try self.view.address(source, on: now) != nil
      if isThere || owner == now { return .untied }
      let isGiven = try self.isGiven(source, to: question, on: now, isSet: isTied)
      if isGiven { return .untied }
    }
    // With several nexthops each is right, unless the address is one's own: then the kernel must go on taking that one, as far
    // as the question is that of the connection. IPv6 passes over a leg whose router it believes silent, and the connection
    // keeps the leg that it was made on (rt6_score_route), as long as that carries.
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
      try self.way(to: bound).judged.status == .satisfied
    else { return .withoutRoute }
    return self.removals.concern(link, question.address) ? .withWorseRoute : .withRoute
  }

  /// Whether the route to a destination spreads traffic over a link, among others. One with more nexthops than the kernel
  /// shows is found by what is bound to the link: that takes a route of as many.
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

  /// Whether the kernel gives new connections this source address by a link that it is none of: a router's own, on its loopback
  /// link, or one that a VPN by IPsec has given, on whichever link.
  ///
  /// - Parameter isSet: only where the route says so: where a link has no address the kernel borrows any other link's.
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

  /// What new connections get, where that is another way or subnet.
  private func alternative(
    _ question: Destination, _ way: FlowPath, by router: IPAddress?
  ) throws(KernelUnavailable) -> FlowReading.Alternative? {
    guard case .route(let own) = way.answer, own.kind == .unicast, let source = question.source
    else { return nil }
    let key = try self.key(way.answer, question)
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
    var other = way.judged
    other.source = preferred.source
    other.sourcePrefixLength = try preferred.source.flatMap { (source) throws(KernelUnavailable) in
      try self.view.address(source, on: preferred.outLink)?.prefixLength
    }
    // Who sends from an address of another link has chosen that himself.
    guard way.judged.sourcePrefixLength != nil, other.sourcePrefixLength != nil,
      !other.isOfSameSubnet(as: way.judged)
    else {
      // The route is the same, and so will be the sources that it gives to others.
      if isOwnRoute, preferred.source == source { self.usual.insert(key) }
      return nil
    }
    // A router of several prefixes sends all of them on: which one new connections take changes with each address that is made
    // (RFC 8981), and an old prefix fades away while its addresses stay good for those that have them (RFC 4862, 5.5.4).
    let isOfSameRouter =
      question.address.family == .ipv6 && router == own.gateway
    // Of several nexthops each connection takes one, and its address.
    let isSpread = try self.view.entry(for: new)?.isSpread ?? false
    return .init(
      link: preferred.outLink, source: preferred.source,
      isKept: !isOwnRoute || isOfSameRouter || isSpread)
  }

  /// Whether what answers the flow is dropped as it comes in, because another link leads to its remote address. It is asked
  /// only of a flow that goes another way than most: one that is bound to a link, or has a mark.
  private func areRepliesRefused(
    _ question: Destination, _ way: FlowPath, _ alternative: FlowReading.Alternative?
  ) throws(KernelUnavailable) -> Bool {
    guard question.address.family == .ipv4, case .route(let route) = way.answer,
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
