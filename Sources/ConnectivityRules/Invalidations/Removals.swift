package import Connectivity

/// What the kernel has told that it removed: a flow's way that went by that may come back, whatever decides meanwhile (I10).
package struct Removals: Hashable, Sendable {
  private var routes: [RouteChange] = []
  /// Those of a family, or more than are kept.
  private var families: Set<AddressFamily> = []

  private static let most = 1024

  package init() {}

  package init(_ occasion: Occasion) { self.note(occasion) }

  package mutating func note(_ occasion: Occasion) {
    guard case .events(let events) = occasion else { return }
    for event in events {
      switch event {
      case .routeRemoved(let change): self.note(change)
      case .ruleRemoved(let family): self.families.insert(family)
      // Which routes went with it is not told.
      case .nexthopRemoved: self.families.formUnion(AddressFamily.allCases)
      default: break
      }
    }
  }

  private mutating func note(_ change: RouteChange) {
    if self.routes.count < Self.most {
      self.routes.append(change)
    } else {
      self.families.insert(change.route.prefix.address.family)
    }
  }

  /// Whether a way over a link to a destination may have been among it.
  package func concern(_ link: UInt32, _ destination: IPAddress) -> Bool {
    self.families.contains(destination.family)
      || self.routes.contains { change in
        (change.outLink ?? link) == link && change.route.prefix.contains(destination)
      }
  }
}
