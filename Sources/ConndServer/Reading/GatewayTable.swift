import Connectivity
import ConnectivityRules
import OrderedCollections

/// The networks behind the links in use, as far as known. The MAC addresses of gateways identify
/// networks that have no name (I4). The bridge ports show behind which link a gateway is (K6).
///
/// Only the MAC addresses of one gateway are compared, and only if its link, or the source address
/// of new connections, was lost in between. Each such loss begins an epoch. A flow was made on
/// another network if its epoch is earlier than the first epoch of the current network.
struct GatewayTable {
  private struct Carrier {
    var isUp: Bool
    var downCount: UInt32?
  }

  private struct BridgedAddress: Hashable {
    var bridge: UInt32
    var hardwareAddress: [UInt8]
  }

  var now = Instant(sinceStart: .zero)
  // With few keys, comparing them costs less than hashing.
  private var known = OrderedDictionary<Gateway, KnownGateway>()
  private var carriers = OrderedDictionary<UInt32, Carrier>()
  /// The bridge port of each MAC address, or `nil` while the bridge has not learnt it.
  private var ports = OrderedDictionary<BridgedAddress, UInt32?>()
  private var lastEpoch: UInt64 = 0
  /// The epochs of links whose neighbours have no MAC addresses.
  private var linkEpochs: [UInt32: [AddressFamily: UInt64]] = [:]
  /// Whether the kernel's filter does not cover everything known here.
  private(set) var isNew = false

  /// A machine has only a few gateways. With more than this, all are forgotten and learnt again.
  private static let most = 64

  /// The gateways, in the form that the kernel's filter expects.
  var gateways: [Neighbour] {
    self.known.values.map(\.heard).sorted { ($0.link, $0.address) < ($1.link, $1.address) }
  }

  /// The MAC addresses that matter behind bridges.
  var bridged: [[UInt8]] {
    Set(self.ports.keys.map(\.hardwareAddress)).sorted { $0.lexicographicallyPrecedes($1) }
  }

  // MARK: - State

  /// Returns what is known about the network behind a path's link.
  ///
  /// - Parameter isDefault: Whether this is a default path, whose source address is that of new
  ///   connections.
  mutating func identity(
    of path: KernelPath, _ facts: PathFacts, isDefault: Bool = false, _ view: KernelView
  ) throws(KernelUnavailable) -> NetworkIdentity {
    guard let first = facts.links.first?.link else { return NetworkIdentity() }
    for facts in facts.links { self.observe(facts.link) }
    let prefix = path.source.flatMap { source in
      path.sourcePrefixLength.flatMap { IPPrefix(source, length: $0) }
    }
    var identity = NetworkIdentity(
      gateway: path.gateway, hasHardwareAddresses: first.hasNeighbours, prefix: prefix,
      wireless: facts.links.wireless?.device.wireless?.network)
    guard first.hasNeighbours else {
      identity.epoch = self.linkEpochs[first.index]?[facts.destination.family] ?? 0
      return identity
    }
    guard let address = path.gateway else { return identity }
    let gateway = Gateway(link: first.index, address: address)
    try self.ask(gateway, behind: Set(facts.links.map(\.link.index)), view)
    if isDefault {
      let lengths = try path.source.map { (source) throws(KernelUnavailable) in
        try view.prefixLengths(of: source, on: first.index)
      }
      self.known[gateway]?.use(path.source, prefixLengths: lengths ?? [])
    }
    if let known = self.known[gateway] {
      identity.epoch = known.epoch
      identity.oldestValidEpoch = known.oldestValidEpoch
      identity.gatewayHardwareAddress = known.suspicion == nil ? known.hardwareAddress : nil
    }
    return identity
  }

  private mutating func ask(
    _ gateway: Gateway, behind links: Set<UInt32>, _ view: KernelView
  ) throws(KernelUnavailable) {
    if self.known[gateway] == nil {
      if self.known.count >= Self.most { self.known = [:] }
      self.lastEpoch += 1
      self.known[gateway] = KnownGateway(
        gateway, behind: links, epoch: self.lastEpoch, at: self.now)
      self.isNew = true
    }
    // A port that the gateway is no longer behind may be gone. The message about that comes later.
    for link in (self.known[gateway]?.links ?? []).subtracting(links).sorted() {
      if let facts = try view.linkAnew(link) {
        self.observe(facts.link)
      } else {
        self.forget(link)
      }
    }
    self.known[gateway]?.links = links
    // Without a carrier the kernel knows only permanent neighbours (neigh_carrier_down). The
    // gateway is queried once the link is up.
    guard self.known[gateway]?.isInDoubt == true, self.carriers[gateway.link]?.isUp == true else {
      return
    }
    // The links were read before the neighbour, so a loss in between is noticed.
    let neighbour = try view.neighbour(gateway.address, on: gateway.link)
    // The link may have been lost between this query and the one for the link.
    if let address = neighbour?.hardwareAddress, let known = self.known[gateway],
      known.suspicion == nil, known.hardwareAddress != address
    {
      for link in links.sorted() { try view.linkAnew(link).map { self.observe($0.link) } }
    }
    // The query is repeated until the kernel is certain.
    self.known[gateway]?.learn(neighbour, at: self.now)
    if let neighbour { self.follow(neighbour) }
    if self.known[gateway]?.isUnconfirmed == true { self.awaitRouter(gateway) }
  }

  /// Returns the last known MAC address of a gateway, or `nil` if it has none.
  ///
  /// - Parameter links: The gateway's link and the links below it.
  mutating func hardwareAddress(
    of gateway: Gateway, behind links: [LinkFacts], _ view: KernelView
  ) throws(KernelUnavailable) -> [UInt8]? {
    guard let first = links.first?.link, first.hasNeighbours else { return nil }
    for facts in links { self.observe(facts.link) }
    try self.ask(gateway, behind: Set(links.map(\.link.index)), view)
    if self.known[gateway]?.suspicion != nil { self.awaitRouter(gateway) }
    return self.known[gateway]?.hardwareAddress
  }

  /// Watches a gateway whose link went down since its MAC address was read. The kernel must report
  /// an unchanged MAC address too.
  private mutating func awaitRouter(_ gateway: Gateway) {
    guard self.known[gateway]?.heard.hardwareAddress != nil else { return }
    self.known[gateway]?.heard.hardwareAddress = nil
    self.isNew = true
  }

  /// The place where a bridge reaches a MAC address.
  struct Place {
    /// `nil` if the bridge has never learnt the address.
    var port: UInt32?
    /// Whether the bridge knows it now.
    var isPresent: Bool
  }

  /// Returns where a bridge reaches a MAC address, or reached it before it forgot the address. From
  /// now on the kernel reports when the bridge learns more.
  mutating func place(
    of hardwareAddress: [UInt8], on bridge: UInt32, _ view: KernelView
  ) throws(KernelUnavailable) -> Place {
    let key = BridgedAddress(bridge: bridge, hardwareAddress: hardwareAddress)
    if self.ports[key] == nil {
      if self.ports.count >= Self.most { self.ports = [:] }
      self.ports[key] = .some(nil)
      self.isNew = true
    }
    let present = try view.bridgePort(of: hardwareAddress, on: bridge)
    if let present { self.ports[key] = present }
    return Place(port: self.ports[key] ?? nil, isPresent: present != nil)
  }

  /// Returns the last known MAC address of a gateway, or `nil` if it is unknown.
  func lastHardwareAddress(of address: IPAddress, on link: UInt32) -> [UInt8]? {
    self.known[Gateway(link: link, address: address)]?.hardwareAddress
  }

  // MARK: - Events

  /// Updates from kernel messages, in their order.
  mutating func note(_ events: [KernelEvent]) {
    for event in events {
      switch event {
      case .neighbour(let neighbour): self.hear(neighbour)
      case .link(let link) where link.hasReliableState && self.carriers[link.index] != nil:
        // The kernel's filter may hold back the removal of other links.
        self.observe(link)
      case .linkRemoved(let link): self.forget(link.index)
      case .address(let address):
        for (key, known) in self.known where known.links.contains(address.link) {
          self.known[key]?.note(added: address)
        }
      case .addressRemoved(let address): self.interrupt(by: address)
      case .bridgeEntry(let entry):
        for key in self.ports.keys
        where key.hardwareAddress == entry.hardwareAddress
          && entry.bridge.map({ $0 == key.bridge }) ?? true
        {
          self.ports[key] = entry.port
        }
      case .overrun:
        // Any message may have been lost, so the current state is compared.
        for key in self.known.keys { self.known[key]?.isInDoubt = true }
        // Some links may be gone. A link matters only if a gateway is behind it.
        let inUse = self.known.values.reduce(into: Set()) { $0.formUnion($1.links) }
        self.carriers = self.carriers.filter { inUse.contains($0.key) }
      default: break
      }
    }
  }

  /// Updates from a message about a neighbour. The message about a carrier loss in between may come
  /// later (linkwatch). The next reading looks at both.
  private mutating func hear(_ neighbour: Neighbour) {
    self.known[Gateway(link: neighbour.link, address: neighbour.address)]?
      .hear(neighbour, at: self.now)
    self.follow(neighbour)
  }

  /// Remembers the last reported neighbour, because the kernel's filter compares with it.
  private mutating func follow(_ neighbour: Neighbour) {
    let key = Gateway(link: neighbour.link, address: neighbour.address)
    guard let known = self.known[key] else { return }
    var heard = neighbour
    heard.hardwareAddress = neighbour.hardwareAddress ?? known.heard.hardwareAddress
    // If the MAC address is not confirmed yet, the filter must still pass a message that repeats
    // it.
    let isAwaited = known.isUnconfirmed && heard.hardwareAddress == known.hardwareAddress
    guard heard != known.heard, !isAwaited else { return }
    self.known[key]?.heard = heard
    self.isNew = true
  }

  /// Updates from the state of a link, as read or as reported. The link may have been down in
  /// between.
  private mutating func observe(_ link: Link) {
    let isUp = link.state == .up
    guard let before = self.carriers[link.index] else {
      self.carriers[link.index] = Carrier(isUp: isUp, downCount: link.carrierDownCount)
      return
    }
    if let count = link.carrierDownCount, let last = before.downCount {
      // A reading is newer than the message.
      guard count >= last else { return }
      if count > last { return self.went(link, isUp) }
    }
    if before.isUp, !isUp { return self.went(link, isUp) }
    self.carriers[link.index] = Carrier(
      isUp: isUp, downCount: link.carrierDownCount ?? before.downCount)
  }

  private mutating func went(_ link: Link, _ isUp: Bool) {
    self.carriers[link.index] = Carrier(isUp: isUp, downCount: link.carrierDownCount)
    // The kernel forgets the neighbours when it marks the link as down. It keeps them if the
    // carrier is back before that (neigh_carrier_down, linkwatch_do_dev).
    self.interrupt(link.index, forgets: !isUp && link.operationalState == .down)
  }

  /// Begins an epoch because another network may be behind the link.
  private mutating func interrupt(_ link: UInt32, forgets: Bool = false) {
    self.begin(AddressFamily.allCases, on: link, forgets: forgets) { _ in true }
  }

  /// Begins an epoch if new connections have lost their address. A link that moves to another
  /// network loses that address. Other addresses come and go: a cluster's address with its service,
  /// a temporary one with its lifetime.
  private mutating func interrupt(by removed: Address) {
    self.begin([removed.address.family], on: removed.link) { $0.note(removed: removed) }
  }

  /// Begins an epoch for the gateways that are concerned.
  private mutating func begin(
    _ families: [AddressFamily], on link: UInt32, forgets: Bool = false,
    _ concerns: (inout KnownGateway) -> Bool
  ) {
    self.lastEpoch += 1
    for family in families { self.linkEpochs[link, default: [:]][family] = self.lastEpoch }
    for (key, var known) in self.known
    where known.links.contains(link) && families.contains(key.address.family) {
      if concerns(&known) {
        known.begin(
          epoch: self.lastEpoch, at: self.now, forgets: forgets && key.link == link)
      }
      self.known[key] = known
    }
  }

  private mutating func forget(_ link: UInt32) {
    (self.carriers[link], self.linkEpochs[link]) = (nil, nil)
    // The bridge must learn again what was behind a port that is gone.
    self.ports = self.ports.filter { $0.key.bridge != link }
    let kept = self.known.filter { $0.key.link != link }
    if kept.count != self.known.count { self.isNew = true }
    self.known = kept
    // A lower link continues below another stack.
    self.interrupt(link)
  }

  /// Notes that the kernel's filter now covers everything, and reads what it may have held back.
  ///
  /// - Returns: The messages about gateways and ports that have changed meanwhile.
  mutating func acceptFilter(_ view: KernelView) throws(KernelUnavailable) -> [KernelEvent] {
    self.isNew = false
    var events: [KernelEvent] = []
    for known in self.gateways {
      let gateway = Gateway(link: known.link, address: known.address)
      let found = try view.unlessRefused { () throws(KernelUnavailable) in
        try view.neighbour(known.address, on: known.link)
      }
      guard let neighbour = found ?? nil else { continue }
      // If the MAC address is not confirmed yet, the filter must still pass a message that repeats
      // it.
      if let known = self.known[gateway], known.isUnconfirmed,
        known.hardwareAddress == neighbour.hardwareAddress
      {
        continue
      }
      let isOther =
        neighbour.hardwareAddress != nil && neighbour.hardwareAddress != known.hardwareAddress
      if isOther || neighbour.isFailed != known.isFailed { events.append(.neighbour(neighbour)) }
    }
    for (key, port) in self.ports {
      guard let now = try view.bridgePort(of: key.hardwareAddress, on: key.bridge), now != port
      else { continue }
      events.append(.bridgeEntry(BridgeEntry(key.hardwareAddress, port: now, bridge: key.bridge)))
    }
    return events
  }
}

extension [LinkFacts] {
  /// The Wi-Fi link at the bottom of this chain, or `nil` without one.
  var wireless: LinkFacts? { self.last(where: \.isWireless) }
}

extension Link {
  /// Whether neighbours on the link have MAC addresses. Not so for modems and tunnels.
  var hasNeighbours: Bool {
    !self.hardwareAddress.isEmpty && !self.flags.contains(.pointToPoint)
  }
}
