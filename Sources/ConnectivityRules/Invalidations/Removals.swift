package import Connectivity

/// The routes that the kernel has removed. The path of a flow that used one of them may come back,
/// whichever route applies in the meantime (I10).
package struct Removals: Hashable, Sendable {
  private var routes: [RouteChange] = []
  /// The address families for which not every removed route is stored: some are unknown, or there
  /// were more than `maxRemovals`.
  private var families: Set<AddressFamily> = []

  private static let maxRemovals = 1024

  package init() {}

  package init(_ trigger: ReadTrigger) { self.note(trigger) }

  package mutating func note(_ trigger: ReadTrigger) {
    guard case .events(let events) = trigger else { return }
    for event in events {
      switch event {
      case .routeRemoved(let change): self.note(change)
      case .ruleRemoved(let family): self.families.insert(family)
      // The kernel does not report which routes were removed with the nexthop.
      case .nexthopRemoved: self.families.formUnion(AddressFamily.allCases)
      default: break
      }
    }
  }

  private mutating func note(_ change: RouteChange) {
    if self.routes.count < Self.maxRemovals {
      self.routes.append(change)
    } else {
      self.families.insert(change.route.prefix.address.family)
    }
  }

  /// Whether a path over a link to a destination may have used a removed route.
  package func concern(_ link: UInt32, _ destination: IPAddress) -> Bool {
    self.families.contains(destination.family)
      || self.routes.contains { change in
        (change.outLink ?? link) == link && change.route.prefix.contains(destination)
      }
  }
}
