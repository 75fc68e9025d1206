import Connectivity

@testable import ConndServer

/// A flow of a client, what it was made on, and by the rules' words what may and must become of it.
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
  /// Since when its path is away for a moment (I10), by the model.
  private var lostAt: Instant?
  private var isAway = false
  /// A changed category would spare it if its path were there (I5); without it, one that happened before may end it.
  var isSparedNothing: Bool {
    self.isAway && (self.made?.isInTunnel == true || self.made?.path.gateway == nil)
  }
  /// A changed category spares it, as long as its path is there (I5).
  private var isExempt = false
  /// Since when connd must know that it has no path.
  private var knownLostAt: Instant?

  struct Made {
    /// By the part of it that the flow depends on.
    var chain: ArraySlice<PathLink>
    var path: Path
    var source: IPAddress?
    var sourceLink: UInt32?
    var network: UInt8?
    var category: Connectivity.Category
    var isInTunnel: Bool
    /// Who answered for the gateway, if connd can have known.
    var router: [UInt8]?
    var bounces: Int
    /// The default path's gateway, if that is on the link: by it the network is known, also to those who need none.
    var gateway: IPAddress?
  }

  init(_ key: FlowTable.Key, _ flow: Flow) {
    self.key = key
    self.flow = flow
    self.isLocal = flow.destination.address.isLoopback
  }

  /// It begins on the path that it was told, which is the model's.
  mutating func begin(on path: Path, in network: ModelNetwork, _ truth: Truth) {
    let links = path.chain.map { network[$0.index] }
    let tunnel = links.firstIndex { $0?.sort == .tunnel }
    let source = self.flow.local ?? path.source
    let link = network[path.chain.first?.index]
    self.made = Made(
      chain: path.chain.prefix((tunnel ?? links.count) + 1), path: path, source: source,
      sourceLink: source.flatMap {
        network.has($0, on: link?.index) ? link?.index : network.owner(of: $0) ?? link?.index
      },
      network: link?.network, category: truth.category, isInTunnel: tunnel != nil,
      router: path.gateway.flatMap { link?.neighbours[$0] },
      bounces: truth.bounces, gateway: self.gateway(truth, on: link?.index))
    self.disturbance = nil
  }

  /// Another connd follows it now, which does not know for how long its path has been away, or who the router was. Without
  /// an address of its own, and without a path when it was registered again, it begins anew.
  mutating func isRegisteredAgain(in network: ModelNetwork) {
    self.made?.router = nil
    self.knownLostAt = nil
    // Which address it has, nobody knows but by what it was told.
    if self.flow.local == nil, self.told.status == .satisfied {
      self.made?.source = self.told.source
      if let source = self.told.source, !network.has(source, on: self.told.chain.first?.index) {
        self.excuse("the address that it was told went")
      }
    }
    // Nor that a rule kept it on its old link, when it was told of a better path.
    let isElsewhere = self.told.chain.first != self.made?.path.chain.first
    if self.flow.local == nil, self.told.status != .satisfied || isElsewhere { self.made = nil }
    // Nor on which link its address was, where the path that it was told has another, and its link is made anew.
    let link = self.told.chain.first?.index
    if let local = self.flow.local, local != self.told.source, network[link] == nil,
      network.owner(of: local) != nil
    {
      self.made = nil
    }
  }

  /// Clients were told that the category is another (I5), though it may only be held back (T1).
  mutating func categoryIsPublished(_ category: Connectivity.Category, isAnotherPath: Bool) {
    // Without its path it is spared nothing.
    guard !self.isLocal, !self.isExempt,
      self.made?.category != category || isAnotherPath || self.isAway
    else { return }
    self.excuse("the category was published as \(category)")
  }

  mutating func excuse(_ why: String) { self.disturbance = self.disturbance ?? why }

  // MARK: - What happened

  /// Looks at what the network has become.
  mutating func observe(
    _ network: ModelNetwork, _ truth: Truth, at now: Instant
  ) {
    self.passTime(to: now)
    guard !self.isLocal, self.disturbance == nil, let made = self.made else { return }
    let path = self.path(in: network)
    if let source = made.source, !network.has(source, on: made.sourceLink) {
      self.disturbance = "its source went"
      return
    }
    for link in made.chain where network[link.index]?.isUp != true {
      self.disturbance = "\(link.name) went"
      return
    }
    if network[made.chain.first?.index]?.network != made.network {
      self.disturbance = "another network"
      return
    }
    // By the default path's gateway connd knows the network of all who are on the link (I4).
    if let gateway = self.gateway(truth, on: made.chain.first?.index), gateway != made.gateway {
      self.disturbance = "another gateway"
      return
    }
    self.isAway = false
    if path.status == .satisfied {
      guard path.chain.prefix(made.chain.count) == made.chain, path.gateway == made.path.gateway,
        Self.prefix(path) == Self.prefix(made.path), !self.isForbidden(path)
      else {
        self.disturbance = "another path"
        return
      }
    } else {
      self.isAway = true
      // A cable that is out is out.
      for link in made.chain
      where network[link.index]?.sort != .wifi && network.link(link.index)?.state != .up {
        self.disturbance = "\(link.name) failed"
        return
      }
    }
    self.isExempt = !self.isAway && (made.isInTunnel || made.path.gateway == nil)
    if !self.isExempt, truth.bounces != made.bounces {
      self.disturbance = "the default path bounced"
      return
    }
    if !self.isExempt, truth.category != made.category {
      guard truth.category == .none, truth.isSoft else {
        self.disturbance = "the category went from \(made.category) to \(truth.category)"
        return
      }
      self.isAway = true
    }
    if self.isAway { self.lostAt = self.lostAt ?? now }
    self.passTime(to: now)
  }

  mutating func passTime(to now: Instant) {
    guard self.isAway, let lostAt = self.lostAt, lostAt.advanced(by: .seconds(1)) <= now else {
      return
    }
    self.disturbance = self.disturbance ?? "its path was away for a second"
  }

  /// connd has read what there is.
  mutating func isRead(in network: ModelNetwork, _ truth: Truth, at now: Instant) {
    guard self.made != nil else { return }
    // What it was spared is over; what comes later, when its path may be away, is not.
    if self.isExempt {
      self.made?.category = truth.category
      self.made?.bounces = truth.bounces
    }
    // Two losses between which nobody looked are one.
    if !self.isAway { self.lostAt = nil }
    let path = self.path(in: network)
    self.knownLostAt = path.status == .satisfied ? nil : self.knownLostAt ?? now
  }

  /// It cannot be asked what there is: a grace that ends has to wait (K8).
  mutating func isUnread() { self.knownLostAt = nil }

  func isForbidden(_ path: Path) -> Bool { self.flow.forbidsExpensive && path.expensive }

  /// The path now. For those who are inside a tunnel it is the way into it that counts; others find the whole or nothing.
  private func path(in network: ModelNetwork) -> Path {
    let upper = network.path(to: self.flow.destination, upToTunnel: true)
    let isInside = upper.chain.first?.index == self.made?.path.chain.first?.index
    return isInside ? upper : network.path(to: self.flow.destination)
  }

  private static func prefix(_ path: Path) -> IPPrefix? {
    path.source.flatMap { source in
      path.sourcePrefixLength.flatMap { IPPrefix(source, length: $0) }
    }
  }

  private func gateway(_ truth: Truth, on link: UInt32?) -> IPAddress? {
    guard let path = truth.paths[self.flow.destination.address.family],
      path.chain.first?.index == link
    else { return nil }
    return path.gateway
  }

  // MARK: - What must not be

  /// Why the flow must not be there any more, once connd has read what there is; `nil`: it may.
  func whyDead(in network: ModelNetwork, at now: Instant) -> String? {
    guard !self.isLocal, let made = self.made, made.path.status == .satisfied else { return nil }
    if let source = made.source, !network.has(source, on: made.sourceLink) {
      return "I1: kept although its source \(source) is gone"
    }
    for link in made.chain where network[link.index]?.isUp != true {
      return "I2: kept although \(link.name) is gone or down"
    }
    let path = self.path(in: network)
    guard path.status == .satisfied else {
      let isOver = self.knownLostAt.map { $0.advanced(by: .seconds(1)) <= now } ?? false
      return isOver ? "I10: kept although its path has been away for a second" : nil
    }
    if self.isForbidden(path) { return "I8: kept on a path that costs money" }
    let isSame = path.chain.first == made.path.chain.first
    if !isSame, !self.isPinned(in: network) { return "I3: kept although the path is another" }
    let isOwn = path.source == made.source
    if isSame, !isOwn, Self.prefix(path) != Self.prefix(made.path) {
      return "I3: kept although the subnet is another"
    }
    if isSame, let router = made.router, let gateway = path.gateway,
      let now = network[path.chain.first?.index]?.neighbours[gateway], now != router
    {
      return "I4: kept although the router is another"
    }
    return nil
  }

  private func isPinned(in network: ModelNetwork) -> Bool {
    var destination = self.flow.destination
    destination.source = self.made?.source
    guard destination.source != nil, case .route(let route) = network.route(to: destination) else {
      return false
    }
    return route.outLink == self.made?.path.chain.first?.index
  }
}
