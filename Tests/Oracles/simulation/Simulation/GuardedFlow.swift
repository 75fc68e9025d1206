import Connectivity
import ConnectivityRules
import ModelRoutes

@testable import ConndServer

/// A flow of a client, what it was made on, and by the words of the rules what may and must happen
/// to it.
///
/// Traffic is the truth (I0): does the model kernel still route the flow's packets, looked up with
/// all of the flow's own values, from an address of this machine, over working links? Nothing here
/// comes from connd's code.
struct GuardedFlow {
  let key: FlowTable.Key
  let flow: Flow
  let isLocal: Bool
  /// The path that the flow was made on, as its client knew it, or `nil` while it had none.
  private(set) var made: Made?
  /// The client's last report.
  var told = KernelPath.unknown {
    didSet { if self.told.status == .satisfied { self.knownLostAt = nil } }
  }
  /// Whether it was destroyed.
  var isOver = false
  /// A change of what it was made on that allows its destruction.
  private(set) var disturbance: String?
  /// Since when its way is temporarily lost (I10), by the model.
  private var lostAt: Instant?
  private var isAway = false
  /// Since when connd must know that it has no way.
  var knownLostAt: Instant?
  /// Whether another path is preferred since then, so that the second of I3 runs.
  private var isDraining = false
  /// How long the lookup has been against it; its socket may refute that.
  private(set) var testimony = Testimony()

  struct Made {
    var link: KernelPath.Link?
    var path: KernelPath
    var source: IPAddress?
    var network: UInt8?
    /// The router that answered for the gateway, if connd can have known it.
    var router: [UInt8]?
    /// The first gateway that it used on its link.
    var firstGateway: IPAddress?
    /// Whether its subnet was not the one that new connections get, or that is unknown.
    var hasChosen: Bool
    /// Whether the following connd found its path lost, and so knows no later failure of a link:
    /// the path may come back in time (I0).
    var beganAway = false

    /// Takes another path over the same link.
    mutating func stay(on path: KernelPath) {
      self.path = path
      self.firstGateway = self.firstGateway ?? path.gateway
    }
  }

  /// The state of the network for a flow.
  enum Fate: Equatable {
    case carried
    /// It may come back in time.
    case away
    /// It may come back in time if connd knows that much; otherwise it is over.
    case awayOrOver(String)
    case over(String)
    /// connd may or may not know that it is over.
    case maybeOver(String)
  }

  init(_ key: FlowTable.Key, _ flow: Flow) {
    self.key = key
    self.flow = flow
    self.isLocal = flow.destination.address.isLoopback
  }

  /// Begins on the path that its client got, which is the model's.
  mutating func begin(on path: KernelPath, in network: ModelNetwork) {
    let link = network[path.chain.first?.index]
    self.made = Made(
      link: path.chain.first, path: path, source: self.flow.local ?? path.source,
      network: link?.network,
      router: path.gateway.flatMap { link?.neighbours[$0] }, firstGateway: path.gateway,
      hasChosen: false)
    let hasChosen = self.prefersOtherSubnet(network)
    self.made?.hasChosen = hasChosen
    self.disturbance = nil
    (self.isAway, self.lostAt) = (false, nil)
    self.testimony = Testimony()
    // Its socket may be older than the failure of its address's link.
    let owner = self.made?.source.flatMap { network.owner(of: $0) }
    if let owner, owner != path.chain.first?.index, network.link(owner)?.state != .up {
      self.excuse("its address's link had failed")
    }
  }

  /// Another connd follows the flow now. It does not know since when the path has been lost, or the
  /// former router. A flow without an address and without a path at its registration begins again.
  mutating func isRegisteredAgain(in network: ModelNetwork) {
    self.made?.router = nil
    self.made?.hasChosen = true
    self.made?.beganAway = self.told.status != .satisfied
    self.knownLostAt = nil
    self.testimony.isUnread()
    // Its address is only known from its client's path.
    if self.flow.local == nil, self.told.status == .satisfied {
      self.made?.source = self.told.source
    }
    if self.flow.local == nil, self.told.status != .satisfied { self.made = nil }
    // The last reported path is compared; a flow without one begins with the present path.
    if self.told.chain.first != self.made?.link { self.made = nil }
  }

  /// It began on a state that connd did not know. At that moment connd may have found that new
  /// connections get another subnet, and takes the router for the former one.
  mutating func beganUnheard() {
    self.excuse("it began on what connd had not heard of")
    self.made?.hasChosen = true
    self.made?.router = nil
  }

  mutating func excuse(_ why: String) { self.disturbance = self.disturbance ?? why }

  // MARK: - Changes

  /// Processes a state of the network.
  mutating func observe(_ network: ModelNetwork, at now: Instant) {
    self.passTime(to: now)
    self.testimony.observe(
      isInTrouble: self.isInTrouble(in: network), isStanding: self.isStanding(in: network),
      isGone: self.isGone(in: network), at: now)
    guard !self.isLocal, let made = self.made else { return }
    // A lookup at that moment finds neither the link nor the address.
    if network[made.link?.index] == nil { return self.excuse("its link was made anew, or is gone") }
    switch self.fate(in: network) {
    case .carried: self.isAway = false
    case .awayOrOver(let why):
      self.excuse(why)
      fallthrough
    case .away:
      self.isAway = true
      self.lostAt = self.lostAt ?? now
      self.passTime(to: now)
    case .over(let why), .maybeOver(let why): self.excuse(why)
    }
  }

  mutating func passTime(to now: Instant) {
    guard self.isAway, let lostAt = self.lostAt, lostAt.advanced(by: .seconds(1)) <= now else {
      return
    }
    self.disturbance = self.disturbance ?? "its way was away for a second"
  }

  func fate(in network: ModelNetwork) -> Fate {
    guard let made = self.made, let link = made.link else { return .carried }
    if let source = made.source, !network.isLocal(source) {
      // An address of another link may have been lost together with that link.
      if made.path.sourcePrefixLength == nil { return .awayOrOver("its source went") }
      let isUp = network.link(link.index)?.state == .up
      if isUp, !self.isReplaced(source, in: network) { return .away }
      // A program may make the link again.
      return network[link.index] == nil
        ? .awayOrOver("its source went with its link") : .over("its source went")
    }
    let path = self.ownPath(in: network)
    let before = network[link.index]
    // Traffic from an address that is not the link's may move to another link in time.
    let isElsewhere = made.source.map { source in
      let owner = network.owner(of: source)
      return !made.path.chain.contains { $0.index == owner }
    }
    guard path.status == .satisfied else {
      if isElsewhere ?? false { return .awayOrOver("\(link.name) went") }
      guard let before, before.isUp else { return .over("\(link.name) went") }
      // A failure below a tunnel may be rerouted.
      let upper = network.path(to: self.question, upToTunnel: true)
      let isFailed =
        path.chain.first == link && upper.status != .satisfied && upper.reason != .noSourceAddress
      // A pulled cable is final. If the way is refused by then, connd may have looked it up before.
      if made.path.medium == .wifi || made.beganAway { return .away }
      if isFailed { return .over("\(link.name) failed") }
      return network.link(link.index)?.state == .up ? .away : .maybeOver("\(link.name) failed")
    }
    if self.isForbidden(path) { return .over("its way costs money") }
    if path.chain.first == link {
      if before?.network != made.network, path.gateway != nil {
        return .maybeOver("another network")
      }
      return !made.hasChosen && self.prefersOtherSubnet(network)
        ? .awayOrOver("another subnet is preferred") : .carried
    }
    if !self.isTied(to: link, path, in: network) { return .carried }
    if isElsewhere ?? false, self.isPreferred(by: path, in: network) { return .carried }
    guard network.link(link.index)?.state == .up else {
      return isElsewhere ?? false ? .away : .over("\(link.name) failed")
    }
    // If its own route was removed, a worse one over the same link does not count.
    return self.hasOldRoute(in: network) ? .awayOrOver("another link is preferred") : .away
  }

  /// Whether new connections get another address of the same subnet on its link.
  private func isReplaced(_ source: IPAddress, in network: ModelNetwork) -> Bool {
    var question = self.question
    question.source = nil
    question.transport?.localPort = 0
    var (new, lost) = (network.path(to: question, upToTunnel: true), KernelPath(status: .satisfied))
    lost.source = source
    lost.sourcePrefixLength = self.made?.path.sourcePrefixLength
    guard new.chain.first == self.made?.link, new.source != nil else { return false }
    // A modem or a tunnel leads to one network, whatever the prefixes.
    let sort = network[new.chain.first?.index]?.sort
    return sort == .cellular || sort == .tunnel || new.isOfSameSubnet(as: lost)
  }

  /// Whether new connections on its present way also get its address.
  private func isPreferred(by path: KernelPath, in network: ModelNetwork) -> Bool {
    var question = self.question
    question.source = nil
    question.transport?.localPort = 0
    let new = network.path(to: question)
    return new.chain.first == path.chain.first && new.source == self.made?.source
  }

  /// Whether its address is not that of the link it now leaves by, and that link is not one of
  /// several equivalent legs.
  private func isTied(to link: KernelPath.Link, _ path: KernelPath, in network: ModelNetwork)
    -> Bool
  {
    guard let source = made?.source else { return false }
    let owner = network.owner(of: source)
    if owner == path.chain.first?.index { return false }
    let legs = network.entry(for: self.question)?.legs ?? []
    // IPv6's beliefs about routers are not modelled: each working leg is as good.
    let isUp = network.link(link.index)?.state == .up
    let isIPv6 = self.question.address.family == .ipv6
    let isOwn =
      owner == link.index && self.question.transport?.localPort ?? 0 != 0 && !(isUp && isIPv6)
    return isOwn || !(legs.count > 1 && legs.contains { $0.link == link.index })
  }

  private func hasOldRoute(in network: ModelNetwork) -> Bool {
    var bound = self.question
    bound.outLink = self.made?.link?.index
    return network.path(to: bound).status == .satisfied
  }

  func prefersOtherSubnet(_ network: ModelNetwork) -> Bool {
    guard let source = self.made?.source else { return false }
    let own = network.path(to: self.question, upToTunnel: true)
    var question = self.question
    question.source = nil
    question.transport?.localPort = 0
    let new = network.path(to: question, upToTunnel: true)
    // Each connection takes one of several next hops, and its address.
    if network.entry(for: question)?.legs.count ?? 0 > 1 { return false }
    // A router with several prefixes forwards all of them.
    if own.gateway == self.made?.firstGateway { return false }
    guard own.status == .satisfied, new.chain.first == own.chain.first,
      new.gateway == own.gateway, new.table == own.table, let prefix = Self.prefix(own),
      let preferred = new.source, let other = Self.prefix(new)
    else { return false }
    return !prefix.contains(preferred) && !other.contains(source)
  }

  /// connd has read the present state.
  ///
  /// - Parameter isSpared: Whether connd reports that the flow's socket has refuted the lookup.
  mutating func isRead(in network: ModelNetwork, isSpared: Bool, at now: Instant) {
    guard self.made != nil else { return }
    self.follow(network)
    // Two losses without a reading in between are one.
    if !self.isAway { self.lostAt = nil }
    switch self.fate(in: network) {
    case .away, .awayOrOver:
      let isDraining =
        self.ownPath(in: network).status == .satisfied && self.hasOldRoute(in: network)
      // A missing path gets its own grace period.
      if isDraining != self.isDraining { self.knownLostAt = nil }
      self.isDraining = isDraining
      self.knownLostAt = self.knownLostAt ?? now
    case .carried, .over, .maybeOver: self.knownLostAt = nil
    }
    if self.told.chain.contains(where: { network[$0.index]?.sort == .tunnel }) {
      self.testimony.isTunnelled()
    }
    self.testimony.isRead(
      isInTrouble: self.isInTrouble(in: network), isStanding: self.isStanding(in: network),
      isOver: self.whyOver(in: network, at: now) != nil, isSpared: isSpared, at: now)
  }

  /// connd learned of a change that may have cost a path.
  mutating func isAskedAbout(_ connection: ModelConnection, at now: Instant) {
    self.testimony.isAskedAbout(connection, at: now)
  }

  /// A change named something that the flow uses, or its client got another path.
  mutating func isTouched(at now: Instant) { self.testimony.isTouched(at: now) }

  /// Whether connd reports that the flow's socket has refuted the lookup.
  var isSpared: Bool { self.testimony.isSpared }

  /// The client got another report, which ends connd's suspicion.
  mutating func isAskedAnew() { self.testimony.isAskedAnew() }

  /// The flow continues on another link, which is its link from now on.
  private mutating func follow(_ network: ModelNetwork) {
    guard self.fate(in: network) == .carried else { return }
    self.made?.beganAway = false
    let path = self.ownPath(in: network)
    if path.chain.first == self.made?.link {
      if path.gateway != self.made?.path.gateway {
        let link = network[path.chain.first?.index]
        self.made?.router = path.gateway.flatMap { link?.neighbours[$0] }
      }
      self.made?.stay(on: path)
    }
    // The connection may still be on its own link's leg.
    let legs = network.entry(for: self.question)?.legs ?? []
    let isOwn = self.made?.source.flatMap { network.owner(of: $0) } == self.made?.link?.index
    if isOwn, self.question.transport?.localPort ?? 0 != 0, legs.count > 1,
      legs.contains(where: { $0.link == self.made?.link?.index })
    {
      return
    }
    self.move(to: path, network)
  }

  /// The client got a path: over its link by another medium, or over another link that its address
  /// allows.
  mutating func isReported(_ path: KernelPath, in network: ModelNetwork) {
    // A flow in doubt stays on what it was made on.
    guard let source = self.made?.source, !self.isAway || network[self.made?.link?.index] == nil
    else { return }
    // Another link may work below a tunnel's link by now: the loss of that link's carrier counts.
    if path.chain.first == self.made?.link, path.status == .satisfied {
      if path.gateway != self.made?.path.gateway {
        let link = network[path.chain.first?.index]
        let isSame = link?.network == self.made?.network
        self.made?.router = isSame ? path.gateway.flatMap { link?.neighbours[$0] } : nil
      }
      self.made?.stay(on: path)
    }
    // On another link, the network of the former one is unknown.
    if path.chain.first != self.made?.link { self.made?.router = nil }
    let owner = network.owner(of: source)
    let isFree =
      owner == nil || owner == path.chain.first?.index
      || self.question.transport?.localPort ?? 0 == 0
    if isFree { self.move(to: path, network) }
  }

  private mutating func move(to path: KernelPath, _ network: ModelNetwork) {
    guard path.status == .satisfied, let first = path.chain.first, var made = self.made,
      first != made.link
    else { return }
    let link = network[first.index]
    (made.link, made.path, made.network) = (first, path, link?.network)
    made.firstGateway = path.gateway
    made.router = path.gateway.flatMap { link?.neighbours[$0] }
    self.made = made
  }

  /// The present state cannot be read: the end of a grace period has to wait (K8).
  mutating func isUnread() {
    self.knownLostAt = nil
    self.testimony.isUnread()
  }
}
