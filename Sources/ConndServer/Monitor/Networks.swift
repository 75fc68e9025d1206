import Connectivity
import ConnectivityRules

/// What is known of the networks behind the links in use: the hardware addresses of gateways, by which one network is told from another
/// where no name does (I4), and the ports of bridges behind which they are (K6).
///
/// Hardware addresses are compared of one gateway only, and only where the link, or the address that new connections have on it, went in between: each
/// time begins a stage, and what was made at an earlier stage than that of the network which is there now was made on another.
struct Networks {
  private struct Known {
    /// As it was when the kernel was asked last, also where it has forgotten it since.
    var hardwareAddress: [UInt8]?
    /// As the kernel has told it last: its filter goes by that.
    var heard: Neighbour
    /// Something happened that may have made it another, or have the kernel forget it, of which that does not tell.
    var isInDoubt = true
    /// The links below the gateway's, and that one.
    var links: Set<UInt32>
    /// The address that new connections by it have, where a default path leads by it.
    var source: IPAddress?
    var stage: UInt64
    /// The first stage since the hardware address was known for certain; `nil` while it is.
    var unknownSince: UInt64?
    /// What was made at an earlier stage was made on another network.
    var firstStage: UInt64 = 0

    mutating func learn(_ address: [UInt8]) {
      if let before = self.hardwareAddress, before != address, let since = self.unknownSince {
        self.firstStage = since
      }
      (self.hardwareAddress, self.unknownSince) = (address, nil)
    }
  }

  private struct Carrier {
    var isUp: Bool
    var downCount: UInt32?
  }

  private struct BridgedAddress: Hashable {
    var bridge: UInt32
    var hardwareAddress: [UInt8]
  }

  private var known: [Gateway: Known] = [:]
  private var carriers: [UInt32: Carrier] = [:]
  private var ports: [BridgedAddress: UInt32] = [:]
  private var lastStage: UInt64 = 0
  /// Of links whose neighbours have no hardware addresses.
  private var linkStages: [UInt32: [AddressFamily: UInt64]] = [:]
  /// Whether the kernel's filter does not know of all that is here.
  private(set) var isNew = false

  /// A machine has a handful; whoever has more starts anew.
  private static let most = 64

  /// The gateways, as the kernel's filter wants them.
  var gateways: [Neighbour] {
    self.known.values.map(\.heard).sorted { ($0.link, $0.address) < ($1.link, $1.address) }
  }

  /// The hardware addresses that matter behind bridges.
  var bridged: [[UInt8]] {
    Set(self.ports.keys.map(\.hardwareAddress)).sorted { $0.lexicographicallyPrecedes($1) }
  }

  // MARK: - What there is

  /// What is known of the network behind a path's link.
  ///
  /// - Parameter isDefault: it is a default path, whose address is that of new connections.
  mutating func identity(
    of path: Path, _ facts: PathFacts, isDefault: Bool = false, _ view: KernelView
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
      identity.stage = self.linkStages[first.index]?[facts.destination.family] ?? 0
      return identity
    }
    guard let address = path.gateway else { return identity }
    let gateway = Gateway(link: first.index, address: address)
    try self.ask(gateway, behind: Set(facts.links.map(\.link.index)), view)
    if isDefault { self.known[gateway]?.source = path.source }
    if let known = self.known[gateway] {
      identity.stage = known.stage
      identity.firstStage = known.firstStage
      identity.gatewayHardwareAddress = known.unknownSince == nil ? known.hardwareAddress : nil
    }
    return identity
  }

  private mutating func ask(
    _ gateway: Gateway, behind links: Set<UInt32>, _ view: KernelView
  ) throws(KernelUnavailable) {
    if self.known[gateway] == nil {
      if self.known.count >= Self.most { self.known = [:] }
      self.lastStage += 1
      self.known[gateway] = Known(
        heard: Neighbour(gateway.address, link: gateway.link), links: links,
        stage: self.lastStage, unknownSince: self.lastStage)
      self.isNew = true
    }
    // A port that the gateway is no longer behind may be gone, which is told later.
    for link in (self.known[gateway]?.links ?? []).subtracting(links).sorted() {
      if let facts = try view.linkAnew(link) {
        self.observe(facts.link)
      } else {
        self.forget(link)
      }
    }
    self.known[gateway]?.links = links
    // Without a carrier the kernel knows no neighbours but those that were told it for good (neigh_carrier_down): it is asked when
    // the link is up.
    guard self.known[gateway]?.isInDoubt == true, self.carriers[gateway.link]?.isUp == true else {
      return
    }
    // The links were looked at before: whether they went since is known.
    guard let neighbour = try view.neighbour(gateway.address, on: gateway.link) else { return }
    self.hear(neighbour)
    if let address = neighbour.hardwareAddress {
      // It may have gone just now: between this question and that for the link.
      if let known = self.known[gateway], known.unknownSince == nil,
        known.hardwareAddress != address
      {
        for link in links.sorted() { try view.linkAnew(link).map { self.observe($0.link) } }
      }
      self.known[gateway]?.learn(address)
      // As long as the kernel knows nothing, it is asked again.
      self.known[gateway]?.isInDoubt = false
    }
  }

  /// The hardware address of a gateway: the last that it was known to have, until it is known that it has another.
  ///
  /// - Parameter links: that of the gateway, and those below it.
  mutating func hardwareAddress(
    of gateway: Gateway, behind links: [LinkFacts], _ view: KernelView
  ) throws(KernelUnavailable) -> [UInt8]? {
    guard let first = links.first?.link, first.hasNeighbours else { return nil }
    for facts in links { self.observe(facts.link) }
    try self.ask(gateway, behind: Set(links.map(\.link.index)), view)
    if self.known[gateway]?.unknownSince != nil { self.awaitRouter(gateway) }
    return self.known[gateway]?.hardwareAddress
  }

  /// It matters which hardware address a gateway has, whose link went since that was known: also that it is the same is to be told.
  private mutating func awaitRouter(_ gateway: Gateway) {
    guard self.known[gateway]?.heard.hardwareAddress != nil else { return }
    self.known[gateway]?.heard.hardwareAddress = nil
    self.isNew = true
  }

  /// The port of a bridge behind which a hardware address is, or was before the bridge forgot it.
  mutating func port(
    of hardwareAddress: [UInt8], on bridge: UInt32, _ view: KernelView
  ) throws(KernelUnavailable) -> UInt32? {
    let key = BridgedAddress(bridge: bridge, hardwareAddress: hardwareAddress)
    if self.ports[key] == nil, self.ports.count >= Self.most { self.ports = [:] }
    let isFollowed = self.ports[key] != nil
    if let port = try view.bridgePort(of: hardwareAddress, on: bridge) {
      self.ports[key] = port
      self.isNew = self.isNew || !isFollowed
      return port
    }
    return self.ports[key]
  }

  /// The hardware address that a gateway was last known to have.
  func lastHardwareAddress(of address: IPAddress, on link: UInt32) -> [UInt8]? {
    self.known[Gateway(link: link, address: address)]?.hardwareAddress
  }

  // MARK: - What happened

  /// Takes note of what the kernel has told, in its order.
  mutating func note(_ events: [KernelEvent]) {
    for event in events {
      switch event {
      case .neighbour(let neighbour): self.hear(neighbour)
      case .link(let link) where link.provesSomething && self.carriers[link.index] != nil:
        // Of others it is not known whether it would be told that they go.
        self.observe(link)
      case .linkRemoved(let link): self.forget(link.index)
      case .addressRemoved(let address): self.interrupt(by: address)
      case .bridgeEntry(let entry):
        for key in self.ports.keys
        where key.hardwareAddress == entry.hardwareAddress
          && entry.bridge.map({ $0 == key.bridge }) ?? true
        {
          self.ports[key] = entry.port
        }
      case .overrun:
        // What was missed may be anything: what the kernel says now is compared.
        for key in self.known.keys { self.known[key]?.isInDoubt = true }
        // Some may be gone by now, of which it matters only where a gateway is behind them.
        let inUse = self.known.values.reduce(into: Set()) { $0.formUnion($1.links) }
        self.carriers = self.carriers.filter { inUse.contains($0.key) }
      default: break
      }
    }
  }

  /// The message that a link's carrier was lost in between may come later (linkwatch): the next reading looks at both.
  private mutating func hear(_ neighbour: Neighbour) {
    let key = Gateway(link: neighbour.link, address: neighbour.address)
    guard let known = self.known[key] else { return }
    var heard = neighbour
    heard.hardwareAddress = neighbour.hardwareAddress ?? known.heard.hardwareAddress
    // The first that is heard of is the one that all were made by so far.
    if known.hardwareAddress == nil { heard.hardwareAddress.map { self.known[key]?.learn($0) } }
    self.known[key]?.isInDoubt = true
    guard heard != known.heard else { return }
    self.known[key]?.heard = heard
    self.isNew = true
  }

  /// A link as it is, or as the kernel has told of it: it may have gone since it was seen last.
  private mutating func observe(_ link: Link) {
    let isUp = link.state == .up
    guard let before = self.carriers[link.index] else {
      self.carriers[link.index] = Carrier(isUp: isUp, downCount: link.carrierDownCount)
      return
    }
    if let count = link.carrierDownCount, let last = before.downCount {
      // What was read is newer than what is told.
      guard count >= last else { return }
      if count > last { return self.went(link, isUp) }
    }
    if before.isUp, !isUp { return self.went(link, isUp) }
    self.carriers[link.index] = Carrier(
      isUp: isUp, downCount: link.carrierDownCount ?? before.downCount)
  }

  private mutating func went(_ link: Link, _ isUp: Bool) {
    self.carriers[link.index] = Carrier(isUp: isUp, downCount: link.carrierDownCount)
    self.interrupt(link.index)
  }

  /// Another network may be behind the link from now on.
  private mutating func interrupt(_ link: UInt32) {
    self.begin(AddressFamily.allCases, on: link) { _ in true }
  }

  /// A link that is given another network loses the address that it has in this one. Others come and go: that of a cluster with the
  /// service, a temporary one with its time.
  private mutating func interrupt(by removed: Address) {
    self.begin([removed.address.family], on: removed.link) { known in
      known.source.map { $0 == removed.address } ?? true
    }
  }

  /// A stage begins.
  private mutating func begin(
    _ families: [AddressFamily], on link: UInt32, _ concerns: (Known) -> Bool
  ) {
    self.lastStage += 1
    for family in families { self.linkStages[link, default: [:]][family] = self.lastStage }
    for (key, known) in self.known
    where known.links.contains(link) && families.contains(key.address.family) && concerns(known) {
      self.known[key]?.stage = self.lastStage
      self.known[key]?.unknownSince = known.unknownSince ?? self.lastStage
      self.known[key]?.isInDoubt = true
    }
  }

  private mutating func forget(_ link: UInt32) {
    (self.carriers[link], self.linkStages[link]) = (nil, nil)
    // What was behind a port that is gone is lost until the bridge has learnt it anew.
    self.ports = self.ports.filter { $0.key.bridge != link }
    let kept = self.known.filter { $0.key.link != link }
    if kept.count != self.known.count { self.isNew = true }
    self.known = kept
    // One below goes on above another.
    self.interrupt(link)
  }

  /// The kernel's filter knows of all; what it let pass before is read again.
  ///
  /// - Returns: the messages that would have told of gateways, if they are others by now.
  mutating func acceptFilter(_ view: KernelView) throws(KernelUnavailable) -> [KernelEvent] {
    self.isNew = false
    var events: [KernelEvent] = []
    for known in self.gateways {
      let found = try view.unlessRefused { () throws(KernelUnavailable) in
        try view.neighbour(known.address, on: known.link)
      }
      guard let neighbour = found ?? nil else { continue }
      let isOther =
        neighbour.hardwareAddress != nil && neighbour.hardwareAddress != known.hardwareAddress
      if isOther || neighbour.isFailed != known.isFailed { events.append(.neighbour(neighbour)) }
    }
    return events
  }
}

extension [LinkFacts] {
  /// The link of Wi-Fi at the bottom of this chain.
  var wireless: LinkFacts? { self.last(where: \.isWireless) }
}

extension Link {
  /// Whether the link has neighbours with hardware addresses: not a modem's, nor a tunnel's.
  fileprivate var hasNeighbours: Bool {
    !self.hardwareAddress.isEmpty && !self.flags.contains(.pointToPoint)
  }
}
