import Connectivity
import ConnectivityRules

/// The subscriptions that paths depend on: the networks behind the gateways in use, the links of
/// paths, and the remote ends of tunnels. The routes to these ends decide which link is below a
/// tunnel (K6).
///
/// The readings of each turn add to this value. If they need messages that the socket filter drops,
/// connd installs a wider filter.
struct KernelSubscriptions {
  var gateways = GatewayTable()
  var bridgePorts = BridgePorts()
  /// The links that no path can depend on.
  var ignoredLinks = IgnoredLinks()
  /// One IPv6 address of each subnet that can be a source for other networks, or `nil` if unknown.
  /// Without this cache, each turn would list all addresses on a machine without a working IPv6
  /// route.
  var globalSources: [IPAddress]?
  var tunnelCosts = TunnelCosts()
  var removedLinks = RemovedLinks()
  /// The remote ends of tunnels, each with the tunnel's link.
  private var tunnels: Set<PathFacts.TunnelEnd> = []
  /// The marks that keep traffic out of tables that route into tunnels, for the rules read so far.
  var marks: [RuledTable: [UInt32]] = [:] {
    didSet { if self.marks.count > Self.maxTunnels { self.marks = [:] } }
  }
  /// The links of default routes, or `nil` if they must be read.
  var uplinks: Set<UInt32>?
  /// Whether the socket filter does not yet pass routes to the remote end of every tunnel.
  private var hasNewTunnel = false

  struct RuledTable: Hashable {
    var family: AddressFamily
    var table: UInt32
  }

  /// A hub may have very many tunnels. Beyond this number, the link below a tunnel is read, but not
  /// followed.
  private static let maxTunnels = 1024

  /// The remote ends of the tunnels on paths.
  var tunnelEnds: Set<IPAddress> { Set(self.tunnels.map(\.address)) }

  /// Whether the socket filter drops messages that may matter.
  var isWider: Bool {
    self.hasNewTunnel || self.gateways.isNew || self.bridgePorts.isNew
      || self.ignoredLinks.filterIsTooNarrow
  }

  /// Adds the links and tunnels of a path.
  mutating func use(_ facts: PathFacts) {
    let links = facts.allLinks
    self.ignoredLinks.use(links.lazy.map(\.link.index))
    // The path of a port depends on its master.
    self.ignoredLinks.use(links.lazy.compactMap(\.link.master))
    for end in facts.tunnelEnds + (facts.guess?.tunnelEnds ?? []) {
      guard self.tunnels.count < Self.maxTunnels, self.tunnels.insert(end).inserted
      else { continue }
      self.hasNewTunnel = true
    }
  }

  /// Updates the subscriptions from kernel messages.
  mutating func note(_ events: [KernelEvent]) {
    self.gateways.note(events)
    self.bridgePorts.note(events)
    for event in events {
      self.removedLinks.note(event)
      switch event {
      case .address(let address), .addressRemoved(let address):
        if address.address.family == .ipv6 { self.globalSources = nil }
      case .linkRemoved(let link):
        self.globalSources = nil
        self.tunnels = self.tunnels.filter { $0.link != link.index }
        self.tunnelCosts.forget(link.index)
        self.uplinks?.remove(link.index)
      case .rule, .ruleRemoved: (self.marks, self.uplinks) = ([:], nil)
      case .nexthop: self.uplinks = nil
      case .route(let change, _): self.note(change)
      case .overrun:
        // Some tunnels may be gone. The next reading adds the tunnels that are still in use. Until
        // then the socket filter passes more than necessary, which does no harm.
        (self.tunnels, self.globalSources) = ([], nil)
        (self.marks, self.uplinks) = ([:], nil)
      default: break
      }
    }
  }

  private mutating func note(_ change: RouteChange) {
    // Some VPNs add two routes of /1 each instead of replacing the default route.
    guard change.route.prefix.length <= 1 else { return }
    guard let link = change.outLink, self.uplinks?.count ?? 0 < Self.maxUplinks else {
      self.uplinks = nil
      return
    }
    self.uplinks?.insert(link)
  }

  /// The maximum number of uplinks that are queried.
  static let maxUplinks = 16

  /// Forgets a link that a query did not find, before the message about its removal.
  mutating func forget(_ link: UInt32) {
    self.gateways.forget(link)
    self.bridgePorts.forget(bridge: link)
  }

  /// Notes that the socket filter now passes everything that matters.
  ///
  /// - Returns: Whether everything must be read again.
  mutating func acceptFilter() -> Bool {
    let heardTooLittle = self.ignoredLinks.acceptFilter()
    defer { self.hasNewTunnel = false }
    self.gateways.acceptFilter()
    self.bridgePorts.acceptFilter()
    return self.hasNewTunnel || heardTooLittle
  }
}
