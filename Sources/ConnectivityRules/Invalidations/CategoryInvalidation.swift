import Connectivity

/// Determines the severity of a changed category for all channels (I5, I9). The severity is
/// `advise` while the path of the old category may come back, and if that path comes back in time.
/// Otherwise it is the configured severity.
struct CategoryInvalidation: Hashable, Sendable {
  /// The last known category. A temporarily unknown category invalidates nothing (K8, I7).
  private var lastKnown: NetworkCategory?
  /// The category under which channels were made, and its path.
  private var base: Base?

  private struct Base: Hashable {
    var category: NetworkCategory
    var path: UInt64?
    /// Whether clients were only advised that the category changed. The old category may come back.
    var isInDoubt = false
    /// Whether a category other than `none` was published during the grace period, so that channels
    /// may exist under that category.
    var hasSuccessors = false
  }

  private enum Fate { case alive, inGrace, gone }

  /// Adopts the current category without an invalidation.
  mutating func settle(on status: ConnectivityStatus, _ followed: [TrackedDefaultPath]) {
    guard status.category != .unknown else { return }
    self.lastKnown = status.category
    let path = followed.last { $0.family == status.family && $0.isSame(as: status.path) }
    self.base = Base(category: status.category, path: path?.id)
  }

  /// - Parameter isOnlyNamed: Whether the path is unchanged and only its classification differs,
  ///   which ends no connections (I0).
  /// - Parameter isSettled: Whether the followed paths are known. If not, the path of the old
  ///   category may be back already.
  /// - Returns: The severity for all channels, or `nil` for no invalidation.
  mutating func severity(
    of change: ConnectivityChange?, _ status: ConnectivityStatus, _ followed: [TrackedDefaultPath],
    _ policy: InvalidationPolicy, isOnlyNamed: Bool = false, isSettled: Bool = true
  ) -> Invalidation.Severity? {
    guard status.category != .unknown else { return nil }
    let isChanged = self.isChanged(by: change, status)
    self.lastKnown = status.category
    let fate = self.fate(in: followed)
    if isChanged, isOnlyNamed, fate == .alive {
      self.settle(on: status, followed)
      return .advise
    }
    if isChanged {
      let isBack = fate == .alive && self.base?.category == status.category
      guard fate == .inGrace || isBack || !isSettled else {
        self.settle(on: status, followed)
        return policy.categoryChanged
      }
      self.base?.isInDoubt = !isBack
      if status.category != .offline { self.base?.hasSuccessors = !isBack }
      return .advise
    }
    if let base = self.base, base.isInDoubt {
      guard fate != .inGrace else { return nil }
      self.settle(on: status, followed)
      // Another path has restored the category. Only channels on the original path are lost, and
      // they receive the invalidation of that path. The category `none` is an exception: channels
      // that were made after `none` ended have lost their path.
      let isBack =
        status.category == base.category && !(base.category == .offline && base.hasSuccessors)
      return isBack ? nil : policy.categoryChanged
    }
    // The category is the same, but it may come from another path now.
    if fate == .gone || self.base?.category != status.category { self.settle(on: status, followed) }
    return nil
  }

  private func isChanged(by change: ConnectivityChange?, _ status: ConnectivityStatus) -> Bool {
    switch change {
    case .transition(let transition) where transition.from != .unknown: true
    case .transition, .path: self.lastKnown.map { $0 != status.category } ?? false
    case .invalidation, .dns, nil: false
    }
  }

  private func fate(in followed: [TrackedDefaultPath]) -> Fate {
    guard let path = followed.first(where: { $0.id == self.base?.path }) else { return .gone }
    return path.tracker.isInDoubt ? .inGrace : .alive
  }
}
