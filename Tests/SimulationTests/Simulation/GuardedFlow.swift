import Connectivity
import ConnectivityRules

@testable import ConndServer

/// A flow of a client, what it was made on, and by the rules' words what may and must become of it.
///
/// Traffic is the truth (I0): does the model kernel still send what the flow sends, asked with all that is the flow's own,
/// from an address of this machine, over links that carry? Nothing here is taken from connd's code.
struct GuardedFlow {
  let key: FlowTable.Key
  let flow: Flow
  let isLocal: Bool
  /// What it was made on, as the client was told; `nil` as long as there was nothing to make it on.
  private(set) var made: Made?
  /// What the client was told last.
  var told = Path.unknown {
    didSet { if self.told.status == .satisfied { self.knownLostAt = nil } }
  }
  /// It was destroyed.
  var isOver = false
  /// What happened to what it was made on, so that it may be destroyed.
  private(set) var disturbance: String?
  /// Since when its way is away for a moment (I10), by the model.
  private var lostAt: Instant?
  private var isAway = false
  /// Since when connd must know that it has no way.
  private var knownLostAt: Instant?
  /// What the lookup has said of it for how long, which its socket may refute.
  private(set) var testimony = Testimony()

  struct Made {
    var link: PathLink?
    var path: Path
    var source: IPAddress?
    var network: UInt8?
    /// Who answered for the gateway, if connd can have known.
    var router: [UInt8]?
    /// It was made from a subnet that new connections did not get, or nobody knows.
    var hasChosen: Bool
    /// Who follows it found its path away, and so knows nothing of a link that failed since: it may come back in time (I0).
    var beganAway = false
  }

  /// What the network is to a flow.
  private enum Fate: Equatable {
    case carried
    /// It may come back in time.
    case away
    /// It may come back in time, if that is what connd has heard of: else it is over.
    case awayOrOver(String)
    case over(String)
    /// connd may know of it, and may not.
    case maybeOver(String)
  }

  init(_ key: FlowTable.Key, _ flow: Flow) {
    self.key = key
    self.flow = flow
    self.isLocal = flow.destination.address.isLoopback
  }

  /// It begins on the path that it was told, which is the model's.
  mutating func begin(on path: Path, in network: ModelNetwork) {
    let link = network[path.chain.first?.index]
    self.made = Made(
      link: path.chain.first, path: path, source: self.flow.local ?? path.source,
      network: link?.network,
      router: path.gateway.flatMap { link?.neighbours[$0] }, hasChosen: false)
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

  /// Another connd follows it now, which does not know for how long its path has been away, or who the router was. Without
  /// an address of its own, and without a path when it was registered again, it begins anew.
  mutating func isRegisteredAgain(in network: ModelNetwork) {
    self.made?.router = nil
    self.made?.hasChosen = true
    self.made?.beganAway = self.told.status != .satisfied
    self.knownLostAt = nil
    self.testimony.isUnread()
    // Which address it has, nobody knows but by what it was told.
    if self.flow.local == nil, self.told.status == .satisfied {
      self.made?.source = self.told.source
    }
    if self.flow.local == nil, self.told.status != .satisfied { self.made = nil }
    // What it was told is compared with; where it had no path then, it begins with what there is.
    if self.told.chain.first != self.made?.link { self.made = nil }
  }

  /// It began on what connd had not heard of, which may have found in that moment that new connections get another subnet, and takes the
  /// router for the one before.
  mutating func beganUnheard() {
    self.excuse("it began on what connd had not heard of")
    self.made?.hasChosen = true
    self.made?.router = nil
  }

  mutating func excuse(_ why: String) { self.disturbance = self.disturbance ?? why }

  // MARK: - What happened

  /// Looks at what the network has become.
  mutating func observe(_ network: ModelNetwork, at now: Instant) {
    self.passTime(to: now)
    self.testimony.observe(
      isInTrouble: self.isInTrouble(in: network), isStanding: self.isStanding(in: network),
      isGone: self.isGone(in: network), at: now)
    guard !self.isLocal, let made = self.made else { return }
    // Who looks at that moment finds neither the link nor the address.
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

  private func fate(in network: ModelNetwork) -> Fate {
    guard let made = self.made, let link = made.link else { return .carried }
    if let source = made.source, !network.isLocal(source) {
      // An address that another link had may have gone together with that link.
      if made.path.sourcePrefixLength == nil { return .awayOrOver("its source went") }
      let isUp = network.link(link.index)?.state == .up
      return isUp && !self.isReplaced(source, in: network) ? .away : .over("its source went")
    }
    let path = self.ownPath(in: network)
    let before = network[link.index]
    // What comes from an address that is not the link's may be on another link in time.
    let isElsewhere = made.source.map { source in
      let owner = network.owner(of: source)
      return !made.path.chain.contains { $0.index == owner }
    }
    guard path.status == .satisfied else {
      if isElsewhere ?? false { return .awayOrOver("\(link.name) went") }
      guard let before, before.isUp else { return .over("\(link.name) went") }
      // What fails below a tunnel may be gone round.
      let upper = network.path(to: self.question, upToTunnel: true)
      let isFailed =
        path.chain.first == link && upper.status != .satisfied && upper.reason != .noSourceAddress
      // A cable that is out is out. Where the way is refused by then, connd may have asked for it before.
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
        ? .over("another subnet is preferred") : .carried
    }
    if !self.isTied(to: link, path, in: network) { return .carried }
    if isElsewhere ?? false, self.isPreferred(by: path, in: network) { return .carried }
    guard network.link(link.index)?.state == .up else {
      return isElsewhere ?? false ? .away : .over("\(link.name) failed")
    }
    // Where its own route was removed, a worse one over the same link says nothing.
    return self.hasOldRoute(in: network) ? .awayOrOver("another link is preferred") : .away
  }

  /// Whether new connections get another address of the same subnet on its link.
  private func isReplaced(_ source: IPAddress, in network: ModelNetwork) -> Bool {
    var question = self.question
    question.source = nil
    question.transport?.localPort = 0
    var (new, lost) = (network.path(to: question, upToTunnel: true), Path(status: .satisfied))
    lost.source = source
    lost.sourcePrefixLength = self.made?.path.sourcePrefixLength
    guard new.chain.first == self.made?.link, new.source != nil else { return false }
    // A modem or a tunnel leads to one network, whatever the prefixes.
    let sort = network[new.chain.first?.index]?.sort
    return sort == .cellular || sort == .tunnel || new.isOfSameSubnet(as: lost)
  }

  /// Whether new connections by the way that it takes now get its address, too.
  private func isPreferred(by path: Path, in network: ModelNetwork) -> Bool {
    var question = self.question
    question.source = nil
    question.transport?.localPort = 0
    let new = network.path(to: question)
    return new.chain.first == path.chain.first && new.source == self.made?.source
  }

  /// Whether its address is not that of the link that its way leads over now, and that is no leg of several that are as good.
  private func isTied(to link: PathLink, _ path: Path, in network: ModelNetwork) -> Bool {
    guard let source = made?.source else { return false }
    let owner = network.owner(of: source)
    if owner == path.chain.first?.index { return false }
    let legs = network.entry(for: self.question)?.legs ?? []
    // What IPv6 believes of routers is not modelled: each leg that carries is as good.
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

  private func prefersOtherSubnet(_ network: ModelNetwork) -> Bool {
    guard let source = self.made?.source else { return false }
    let own = network.path(to: self.question, upToTunnel: true)
    var question = self.question
    question.source = nil
    question.transport?.localPort = 0
    let new = network.path(to: question, upToTunnel: true)
    // Of several nexthops each connection takes one, and its address.
    if network.entry(for: question)?.legs.count ?? 0 > 1 { return false }
    // A router of several prefixes sends all of them on.
    if own.gateway == self.made?.path.gateway { return false }
    guard own.status == .satisfied, new.chain.first == own.chain.first,
      new.gateway == own.gateway, new.table == own.table, let prefix = Self.prefix(own),
      let preferred = new.source, let other = Self.prefix(new)
    else { return false }
    return !prefix.contains(preferred) && !other.contains(source)
  }

  /// connd has read what there is.
  ///
  /// - Parameter isSpared: Whether connd says that the flow's socket has refuted the lookup.
  mutating func isRead(in network: ModelNetwork, isSpared: Bool, at now: Instant) {
    guard self.made != nil else { return }
    self.follow(network)
    // Two losses between which nobody looked are one.
    if !self.isAway { self.lostAt = nil }
    switch self.fate(in: network) {
    case .away, .awayOrOver: self.knownLostAt = self.knownLostAt ?? now
    case .carried, .over, .maybeOver: self.knownLostAt = nil
    }
    if self.told.chain.contains(where: { network[$0.index]?.sort == .tunnel }) {
      self.testimony.isTunnelled()
    }
    self.testimony.isRead(
      isInTrouble: self.isInTrouble(in: network), isStanding: self.isStanding(in: network),
      isOver: self.whyOver(in: network, at: now) != nil, isSpared: isSpared, at: now)
  }

  /// connd was told of a change that may have cost a path.
  mutating func isAskedAbout(_ connection: ModelConnection, at now: Instant) {
    self.testimony.isAskedAbout(connection, at: now)
  }

  /// Its client was told of something else, which ends what connd suspects.
  mutating func isAskedAnew() { self.testimony.isAskedAnew() }

  /// Where its way leads over another link and it goes on, that is the link that it is on from now on.
  private mutating func follow(_ network: ModelNetwork) {
    guard self.fate(in: network) == .carried else { return }
    self.made?.beganAway = false
    let path = self.ownPath(in: network)
    if path.chain.first == self.made?.link {
      if path.gateway != self.made?.path.gateway {
        let link = network[path.chain.first?.index]
        self.made?.router = path.gateway.flatMap { link?.neighbours[$0] }
      }
      self.made?.path = path
    }
    // The connection may be on its own link's leg still.
    let legs = network.entry(for: self.question)?.legs ?? []
    let isOwn = self.made?.source.flatMap { network.owner(of: $0) } == self.made?.link?.index
    if isOwn, self.question.transport?.localPort ?? 0 != 0, legs.count > 1,
      legs.contains(where: { $0.link == self.made?.link?.index })
    {
      return
    }
    self.move(to: path, network)
  }

  /// Its client was told of a way: over its link by another medium, or over another link, which its address allows.
  mutating func isTold(_ path: Path, in network: ModelNetwork) {
    // What is in doubt stays on what it was made on.
    guard let source = self.made?.source, !self.isAway || network[self.made?.link?.index] == nil
    else { return }
    // Below a tunnel's link another may carry by now: what it is lost with is that one's cable, or its Wi-Fi.
    if path.chain.first == self.made?.link, path.status == .satisfied {
      if path.gateway != self.made?.path.gateway {
        let link = network[path.chain.first?.index]
        let isSame = link?.network == self.made?.network
        self.made?.router = isSame ? path.gateway.flatMap { link?.neighbours[$0] } : nil
      }
      self.made?.path = path
    }
    // On another link nothing is known of the network that it was on.
    if path.chain.first != self.made?.link { self.made?.router = nil }
    let owner = network.owner(of: source)
    let isFree =
      owner == nil || owner == path.chain.first?.index
      || self.question.transport?.localPort ?? 0 == 0
    if isFree { self.move(to: path, network) }
  }

  private mutating func move(to path: Path, _ network: ModelNetwork) {
    guard path.status == .satisfied, let first = path.chain.first, var made = self.made,
      first != made.link
    else { return }
    let link = network[first.index]
    (made.link, made.path, made.network) = (first, path, link?.network)
    made.router = path.gateway.flatMap { link?.neighbours[$0] }
    self.made = made
  }

  /// It cannot be asked what there is: a grace that ends has to wait (K8).
  mutating func isUnread() {
    self.knownLostAt = nil
    self.testimony.isUnread()
  }

  /// The local port of its socket, or `nil` if it names none.
  var port: UInt16? { self.flow.namesSocket ? self.flow.destination.transport?.localPort : nil }

  func isForbidden(_ path: Path) -> Bool { self.flow.forbidsExpensive && path.isExpensive }

  func isForbidden(in network: ModelNetwork) -> Bool { self.isForbidden(self.ownPath(in: network)) }

  private var question: Destination {
    var question = self.flow.destination
    question.source = self.made?.source ?? self.flow.local
    return question
  }

  /// The way of what the flow sends.
  private func ownPath(in network: ModelNetwork) -> Path { network.path(to: self.question) }

  /// What its client must have been told.
  func shown(in network: ModelNetwork) -> Path { network.path(to: self.question) }

  private static func prefix(_ path: Path) -> IPPrefix? {
    path.source.flatMap { source in
      path.sourcePrefixLength.flatMap { IPPrefix(source, length: $0) }
    }
  }

  // MARK: - What must not be

  /// Why the flow must not be there any more, once connd has read what there is, or `nil` if it
  /// may: its socket may refute the lookup (E1).
  func whyDead(
    in network: ModelNetwork, _ connection: ModelConnection?, at now: Instant
  ) -> String? {
    guard let why = self.whyOver(in: network, at: now) else { return nil }
    guard let connection else { return why }
    return self.testimony.excuses(connection, at: now) ? nil : why
  }

  /// Whether something is wrong with its way, by what a lookup and the neighbours show.
  private func isInTrouble(in network: ModelNetwork) -> Bool {
    guard !self.isLocal, self.made != nil else { return false }
    return self.fate(in: network) != .carried || self.hasOtherRouter(in: network)
  }

  /// Whether nothing but its socket shows that it is dead.
  private func isStanding(in network: ModelNetwork) -> Bool {
    guard !self.isLocal, let made = self.made, made.path.status == .satisfied,
      made.source.map(network.isLocal) ?? false
    else { return false }
    let path = self.ownPath(in: network)
    return path.status == .satisfied && path.chain.first == made.link && !self.isForbidden(path)
      && (made.hasChosen || !self.prefersOtherSubnet(network))
  }

  /// Whether neither its address nor its link is there.
  private func isGone(in network: ModelNetwork) -> Bool {
    guard let made = self.made, let source = made.source else { return false }
    return !network.isLocal(source) && network[made.link?.index] == nil
  }

  /// Why the lookup says that the flow is over, or `nil` if it does not.
  private func whyOver(in network: ModelNetwork, at now: Instant) -> String? {
    guard !self.isLocal, let made = self.made, made.path.status == .satisfied else { return nil }
    switch self.fate(in: network) {
    case .carried: break
    case .away, .awayOrOver:
      let isOver = self.knownLostAt.map { $0.advanced(by: .seconds(1)) <= now } ?? false
      return isOver ? "I10: kept although its way has been away for a second" : nil
    case .maybeOver: break
    case .over(let why): return "I1 I2 I3 I8: kept although \(why)"
    }
    return self.hasOtherRouter(in: network) ? "I4: kept although the router is another" : nil
  }

  private func hasOtherRouter(in network: ModelNetwork) -> Bool {
    guard let made = self.made, let router = made.router else { return false }
    let path = self.ownPath(in: network)
    guard let gateway = path.gateway, gateway == made.path.gateway,
      path.chain.first == made.link, path.status == .satisfied,
      let present = network[made.link?.index]?.neighbours[gateway]
    else { return false }
    return present != router
  }
}
