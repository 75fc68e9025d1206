import Connectivity
import ConnectivityRules
import OrderedCollections

/// The known networks behind the links in use. The MAC addresses of gateways identify networks that
/// have no name (I4). This value never queries the kernel: it lists the queries, and callers pass
/// in the answers (``KernelView/identity(of:_:isDefault:)``).
///
/// A gateway's MAC address is compared only with its earlier one, and only if the link or new
/// connections' source address was lost in between. Each such loss begins an epoch. A flow was made
/// on another network if its epoch is earlier than the first epoch of the current network.
struct GatewayTable {
  private struct Carrier {
    var isUp: Bool
    var downCount: UInt32?
  }

  var now = Instant(sinceStart: .zero)
  // With few keys, comparing them costs less than hashing.
  private var known = OrderedDictionary<Gateway, KnownGateway>()
  private var carriers = OrderedDictionary<UInt32, Carrier>()
  private var lastEpoch: UInt64 = 0
  /// The epochs of links on which neighbours have no MAC addresses.
  private var linkEpochs: [UInt32: [AddressFamily: UInt64]] = [:]
  /// Whether the socket filter does not match ``gateways`` yet.
  private(set) var isNew = false

  /// A machine has only a few gateways. Beyond this number, all are forgotten and learnt again.
  private static let maxGateways = 64

  /// The last reported neighbour entries of the gateways, with which the socket filter compares.
  var gateways: [Neighbour] {
    self.known.values.map(\.heard).sorted { ($0.link, $0.address) < ($1.link, $1.address) }
  }

  // MARK: - State

  /// Returns what is known about the network behind a path's link.
  func identity(of path: KernelPath, _ facts: PathFacts) -> NetworkIdentity {
    guard let first = facts.links.first?.link else { return NetworkIdentity() }
    let prefix = path.source.flatMap { source in
      path.sourcePrefixLength.flatMap { IPPrefix(source, length: $0) }
    }
    var identity = NetworkIdentity(
      gateway: path.gateway, hasHardwareAddresses: first.hasNeighbours, prefix: prefix,
      wireless: facts.links.wireless?.device.wireless?.network)
    if !first.hasNeighbours {
      identity.epoch = self.linkEpochs[first.index]?[facts.destination.family] ?? 0
    } else if let address = path.gateway,
      let known = self.known[Gateway(link: first.index, address: address)]
    {
      identity.epoch = known.epoch
      identity.oldestValidEpoch = known.oldestValidEpoch
      identity.gatewayHardwareAddress = known.suspicion == nil ? known.hardwareAddress : nil
    }
    return identity
  }

  /// Returns the last known MAC address of a gateway, or `nil` if it is unknown.
  func lastHardwareAddress(of gateway: Gateway) -> [UInt8]? { self.known[gateway]?.hardwareAddress }

  /// Follows a gateway.
  ///
  /// - Parameter links: The gateway's link and the links below it.
  /// - Returns: The links that the gateway is not behind any more. Query them, because a link may
  ///   have been removed although its message has not arrived yet.
  mutating func follow(_ gateway: Gateway, behind links: Set<UInt32>) -> [UInt32] {
    if self.known[gateway] == nil {
      if self.known.count >= Self.maxGateways { self.known = [:] }
      self.lastEpoch += 1
      self.known[gateway] = KnownGateway(
        gateway, behind: links, epoch: self.lastEpoch, at: self.now)
      self.isNew = true
    }
    return (self.known[gateway]?.links ?? []).subtracting(links).sorted()
  }

  /// Notes that a gateway is behind `links` only, after the others were queried.
  mutating func move(_ gateway: Gateway, behind links: Set<UInt32>) {
    self.known[gateway]?.links = links
  }

  /// Whether to query a gateway's neighbour entry. Without a carrier the kernel knows only
  /// permanent neighbours (neigh_carrier_down). The gateway is queried once the link is up.
  func mustAsk(_ gateway: Gateway) -> Bool {
    self.known[gateway]?.isInDoubt == true && self.carriers[gateway.link]?.isUp == true
  }

  /// Whether a neighbour entry contradicts a MAC address that was not in doubt. If so, the caller
  /// queries the links again, because a link may have been lost before the neighbour was queried.
  func contradicts(_ neighbour: Neighbour?, _ gateway: Gateway) -> Bool {
    guard let address = neighbour?.hardwareAddress, let known = self.known[gateway] else {
      return false
    }
    return known.suspicion == nil && known.hardwareAddress != address
  }

  /// Updates from the kernel's neighbour entry for a gateway, or `nil` if the kernel has none.
  /// While ``mustAsk(_:)`` is true, each reading repeats the query.
  mutating func learn(_ neighbour: Neighbour?, of gateway: Gateway) {
    self.known[gateway]?.learn(neighbour, at: self.now)
    if let neighbour { self.follow(neighbour) }
    if self.known[gateway]?.isUnconfirmed == true { self.awaitRouter(gateway) }
  }

  /// Notes the source address of new connections through a gateway.
  mutating func use(_ source: IPAddress?, prefixLengths: Set<Int>, by gateway: Gateway) {
    self.known[gateway]?.use(source, prefixLengths: prefixLengths)
  }

  /// Awaits a message about a gateway if its MAC address is in doubt.
  mutating func awaitIfSuspect(_ gateway: Gateway) {
    if self.known[gateway]?.suspicion != nil { self.awaitRouter(gateway) }
  }

  /// Removes the MAC address with which the socket filter compares, so that the kernel reports the
  /// gateway even if its MAC address is unchanged.
  private mutating func awaitRouter(_ gateway: Gateway) {
    guard self.known[gateway]?.heard.hardwareAddress != nil else { return }
    self.known[gateway]?.heard.hardwareAddress = nil
    self.isNew = true
  }

  // MARK: - Events

  /// Updates from kernel messages, in their order.
  mutating func note(_ events: [KernelEvent]) {
    for event in events {
      switch event {
      case .neighbour(let neighbour): self.hear(neighbour)
      case .link(let link) where link.hasReliableState && self.carriers[link.index] != nil:
        // Other links are not stored, because the socket filter may drop their removal.
        self.observe(link)
      case .linkRemoved(let link): self.forget(link.index)
      case .address(let address):
        for (key, known) in self.known where known.links.contains(address.link) {
          self.known[key]?.note(added: address)
        }
      case .addressRemoved(let address): self.interrupt(by: address)
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

  /// Updates from a message about a neighbour. The message about an earlier carrier loss may arrive
  /// after it (linkwatch), so the next reading examines both.
  private mutating func hear(_ neighbour: Neighbour) {
    self.known[Gateway(link: neighbour.link, address: neighbour.address)]?
      .hear(neighbour, at: self.now)
    self.follow(neighbour)
  }

  /// Remembers the last reported neighbour, because the socket filter compares with it.
  private mutating func follow(_ neighbour: Neighbour) {
    let key = Gateway(link: neighbour.link, address: neighbour.address)
    guard let known = self.known[key] else { return }
    var heard = neighbour
    heard.hardwareAddress = neighbour.hardwareAddress ?? known.heard.hardwareAddress
    // If the MAC address is not confirmed yet, the socket filter must still pass a message that
    // repeats that address.
    let isAwaited = known.isUnconfirmed && heard.hardwareAddress == known.hardwareAddress
    guard heard != known.heard, !isAwaited else { return }
    self.known[key]?.heard = heard
    self.isNew = true
  }

  /// Updates from the state of a link, as queried or as reported, and detects whether the link was
  /// down since the last update.
  mutating func observe(_ link: Link) {
    let isUp = link.state == .up
    guard let before = self.carriers[link.index] else {
      self.carriers[link.index] = Carrier(isUp: isUp, downCount: link.carrierDownCount)
      return
    }
    if let count = link.carrierDownCount, let last = before.downCount {
      // The state that was queried earlier is newer than this message.
      guard count >= last else { return }
      if count > last { return self.went(link, isUp) }
    }
    if before.isUp, !isUp { return self.went(link, isUp) }
    self.carriers[link.index] = Carrier(
      isUp: isUp, downCount: link.carrierDownCount ?? before.downCount)
  }

  private mutating func went(_ link: Link, _ isUp: Bool) {
    self.carriers[link.index] = Carrier(isUp: isUp, downCount: link.carrierDownCount)
    // The kernel forgets the neighbours when it marks the link as down. If the carrier is back
    // before, it keeps the neighbours (neigh_carrier_down, linkwatch_do_dev).
    self.interrupt(link.index, forgets: !isUp && link.operationalState == .down)
  }

  /// Begins an epoch because another network may be behind the link.
  private mutating func interrupt(_ link: UInt32, forgets: Bool = false) {
    self.begin(AddressFamily.allCases, on: link, forgets: forgets) { _ in true }
  }

  /// Begins an epoch if new connections have lost their source address, as happens when a link
  /// moves to another network. The removal of any other address means nothing: a cluster's address
  /// goes with its service, and a temporary address expires.
  private mutating func interrupt(by removed: Address) {
    self.begin([removed.address.family], on: removed.link) { $0.note(removed: removed) }
  }

  /// Begins an epoch for the gateways that `concerns` accepts.
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

  /// Forgets a link that is gone.
  mutating func forget(_ link: UInt32) {
    (self.carriers[link], self.linkEpochs[link]) = (nil, nil)
    let kept = self.known.filter { $0.key.link != link }
    if kept.count != self.known.count { self.isNew = true }
    self.known = kept
    // If the removed link was above others, another network may be behind those now.
    self.interrupt(link)
  }

  // MARK: - The filter

  /// Notes that the socket filter now matches ``gateways``.
  mutating func acceptFilter() { self.isNew = false }

  /// Returns the message about a gateway that the old socket filter dropped, or `nil` without one.
  ///
  /// - Parameters:
  ///   - heard: The entry in ``gateways``.
  ///   - neighbour: The kernel's current entry for the same gateway.
  func missed(since heard: Neighbour, _ neighbour: Neighbour) -> KernelEvent? {
    // If the MAC address is not confirmed yet, the socket filter must still pass a message that
    // repeats that address.
    if let known = self.known[Gateway(link: heard.link, address: heard.address)],
      known.isUnconfirmed, known.hardwareAddress == neighbour.hardwareAddress
    {
      return nil
    }
    let isOther =
      neighbour.hardwareAddress != nil && neighbour.hardwareAddress != heard.hardwareAddress
    return isOther || neighbour.isFailed != heard.isFailed ? .neighbour(neighbour) : nil
  }
}

extension [LinkFacts] {
  /// The Wi-Fi link at the bottom of this chain, or `nil` without one.
  var wireless: LinkFacts? { self.last(where: \.isWireless) }
}

extension Link {
  /// Whether neighbours on the link have MAC addresses, unlike behind modems and tunnels.
  var hasNeighbours: Bool {
    !self.hardwareAddress.isEmpty && !self.flags.contains(.pointToPoint)
  }
}
