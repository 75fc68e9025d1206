import Connectivity
import ConnectivityRules

/// The daemon's knowledge of networks behind gateways (I4): MAC addresses, and the epochs that
/// begin when a link, or an address of it, is lost.
struct TestNetworks: Hashable {
  private struct Gateway: Hashable {
    var link: UInt32
    var address: IPAddress
  }

  private struct Subnets: Hashable {
    var link: UInt32
    var family: AddressFamily
  }

  private struct Known: Hashable {
    var router: UInt8?
    /// The first epoch since the router was last known for certain.
    var unknownSince: UInt64?
    var oldestValidEpoch: UInt64 = 0
  }

  private var known: [Gateway: Known] = [:]
  private var isUp: [UInt32: Bool] = [:]
  private var carrierDownCounts: [UInt32: UInt32] = [:]
  /// How often a link, or an address of it, was lost.
  private var stages: [Subnets: UInt64] = [:]

  /// Processes the kernel's messages, and the state it shows.
  mutating func note(_ events: [KernelEvent], _ scene: Scene) {
    for event in events {
      switch event {
      case .link(let link) where link.hasReliableState: self.observe(link)
      case .linkRemoved(let link):
        self.known = self.known.filter { $0.key.link != link.index }
        self.isUp[link.index] = nil
      case .addressRemoved(let address): self.interrupt(address.link, address.address.family)
      default: break
      }
    }
    for place in scene.links {
      self.observe(place.link.link)
      guard place.link.isUp, place.link.hasCarrier else { continue }
      for address in AddressFamily.allCases.compactMap({ place.link.gatewayAddress($0) }) {
        self.learn(place, Gateway(link: place.link.index, address: address))
      }
    }
  }

  /// The identity of the network behind a path's link; a modem's neighbours have no MAC addresses.
  func identity(of path: KernelPath) -> NetworkIdentity {
    var identity = NetworkIdentity(
      gateway: path.gateway, hasHardwareAddresses: path.medium != .cellular,
      prefix: path.source.flatMap { source in
        path.sourcePrefixLength.flatMap { IPPrefix(source, length: $0) }
      })
    guard let link = path.chain.first?.index, let address = path.gateway,
      let known = self.known[Gateway(link: link, address: address)]
    else { return identity }
    (identity.epoch, identity.oldestValidEpoch) = (
      self.epoch(link, address.family), known.oldestValidEpoch
    )
    if identity.hasHardwareAddresses, known.unknownSince == nil {
      identity.gatewayHardwareAddress = known.router.map { [2, 0, 0, 0, 0, $0] }
    }
    return identity
  }

  private mutating func observe(_ link: Link) {
    let hasLost =
      link.carrierDownCount.map { $0 > self.carrierDownCounts[link.index] ?? $0 } ?? false
    if hasLost || self.isUp[link.index] == true && link.state != .up {
      self.interrupt(link.index, nil)
    }
    self.isUp[link.index] = link.state == .up
    self.carrierDownCounts[link.index] = link.carrierDownCount
  }

  private func epoch(_ link: UInt32, _ family: AddressFamily) -> UInt64 {
    self.stages[Subnets(link: link, family: family)] ?? 0
  }

  /// Another network may be behind the link from now on.
  private mutating func interrupt(_ link: UInt32, _ family: AddressFamily?) {
    for family in family.map({ [$0] }) ?? AddressFamily.allCases {
      self.stages[Subnets(link: link, family: family), default: 0] += 1
    }
    for (gateway, known) in self.known
    where gateway.link == link && family.map({ $0 == gateway.address.family }) ?? true {
      let epoch = self.epoch(link, gateway.address.family)
      self.known[gateway]?.unknownSince = known.unknownSince ?? epoch
    }
  }

  private mutating func learn(_ place: Scene.Place, _ gateway: Gateway) {
    if self.known[gateway] == nil {
      let epoch = self.epoch(gateway.link, gateway.address.family)
      self.known[gateway] = Known(unknownSince: epoch)
    }
    guard let router = place.router, var known = self.known[gateway] else { return }
    if let before = known.router, before != router, let since = known.unknownSince {
      known.oldestValidEpoch = since
    }
    (known.router, known.unknownSince) = (router, nil)
    self.known[gateway] = known
  }
}
