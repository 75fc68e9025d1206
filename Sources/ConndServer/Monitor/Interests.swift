import Connectivity
import ConnectivityRules

/// What the kernel is to tell of because of where paths lead: the networks behind the gateways in use, the links that paths
/// are made of, and the other ends of tunnels, the routes to which decide what is below them (K6).
///
/// A value: each turn's readings add to it, and where that makes it wider than the filter that is set, a wider one is set.
struct Interests {
  var networks = Networks()
  /// The links that paths do not lead to.
  var unusedLinks = UnusedLinks()
  /// An IPv6 address of each subnet that connections to other networks may be made from; `nil` where it is to be asked for. All
  /// addresses would be listed in each turn where IPv6 leads nowhere.
  var globalSources: [IPAddress]?
  var tunnelCosts = TunnelCosts()
  /// By the tunnel's link.
  private var tunnels: Set<PathFacts.TunnelEnd> = []
  /// The marks that keep traffic out of tables that lead into tunnels, as far as the rules were read.
  var marks: [RuledTable: [UInt32]] = [:] {
    didSet { if self.marks.count > Self.mostTunnels { self.marks = [:] } }
  }
  /// The links that default routes lead over; `nil` where they are to be found.
  var uplinks: Set<UInt32>?
  /// There is one that the kernel's filter does not know of.
  private var hasNewTunnel = false

  struct RuledTable: Hashable {
    var family: AddressFamily
    var table: UInt32
  }

  /// A hub of tunnels may have many. What is below one more is read, but not followed.
  private static let mostTunnels = 1024

  /// The other ends of the tunnels that paths lead into.
  var tunnelEnds: Set<IPAddress> { Set(self.tunnels.map(\.address)) }

  /// Whether the kernel's filter holds back what may matter.
  var isWider: Bool {
    self.hasNewTunnel || self.networks.isNew || self.unusedLinks.filterIsTooNarrow
  }

  /// A path is made of these.
  mutating func use(_ facts: PathFacts) {
    let links = facts.allLinks
    self.unusedLinks.use(links.lazy.map(\.link.index))
    // What a master does with its port is part of the port's path.
    self.unusedLinks.use(links.lazy.compactMap(\.link.master))
    for end in facts.tunnelEnds + (facts.guess?.tunnelEnds ?? []) {
      guard self.tunnels.count < Self.mostTunnels, self.tunnels.insert(end).inserted
      else { continue }
      self.hasNewTunnel = true
    }
  }

  /// Takes note of what the kernel has told.
  mutating func note(_ events: [KernelEvent]) {
    self.networks.note(events)
    for event in events {
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
        // Some may be gone by now. Who is in use is found again by the reading that follows; that the filter lets more pass
        // than it must is no reason for another one.
        (self.tunnels, self.globalSources) = ([], nil)
        (self.marks, self.uplinks) = ([:], nil)
      default: break
      }
    }
  }

  private mutating func note(_ change: RouteChange) {
    // Some take half of all addresses each, to leave the default route as it is.
    guard change.route.prefix.length <= 1 else { return }
    guard let link = change.outLink, self.uplinks?.count ?? 0 < Self.mostUplinks else {
      self.uplinks = nil
      return
    }
    self.uplinks?.insert(link)
  }

  /// So many are asked for.
  static let mostUplinks = 16

  /// The kernel's filter passes all that matters now.
  ///
  /// - Returns: the messages that it held back before, as far as they can be made up for; `nil` where nothing can have been
  ///   missed. Of routes to a tunnel's other end, and of links, there is nothing to compare: all is to be read again.
  mutating func acceptFilter(_ view: KernelView) throws(KernelUnavailable) -> [KernelEvent]? {
    let heardTooLittle = self.unusedLinks.acceptFilter()
    let mustRead = self.hasNewTunnel || heardTooLittle
    self.hasNewTunnel = false
    let events = try self.networks.acceptFilter(view)
    return events.isEmpty && !mustRead ? nil : events
  }
}
