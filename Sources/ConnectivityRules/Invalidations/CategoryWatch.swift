import Connectivity

/// Says what a changed category means for all channels (I5, I9): `advise` as long as the path that carried the old one may
/// come back in time, and when it does; else what is configured.
struct CategoryWatch: Hashable, Sendable {
  /// The category when it was last known: to know nothing for a while invalidates nothing (K8, I7).
  private var lastKnown: Category?
  /// The category that channels were made under, and the path that carried it.
  private var base: Base?

  private struct Base: Hashable {
    var category: Category
    var path: UInt64?
    /// That it changed was advised, and may have to be made good.
    var isInDoubt = false
    /// Another category than `none` was told while this one was in doubt, and channels were made under that.
    var hasSuccessors = false
  }

  private enum Fate { case alive, inDoubt, gone }

  /// The category is this, and nothing is to be told of it.
  mutating func settle(on status: ConnectivityStatus, _ followed: [FollowedPath]) {
    guard status.category != .unknown else { return }
    self.lastKnown = status.category
    let path = followed.last { $0.family == status.family && $0.isSame(as: status.path) }
    self.base = Base(category: status.category, path: path?.id)
  }

  /// - Parameter isOnlyNamed: the path is what it was, and is taken for something else from now on: nothing ends by that (I0).
  /// - Returns: what is to be told of everything; `nil` for nothing.
  mutating func severity(
    of change: Change?, _ status: ConnectivityStatus, _ present: [AddressFamily: PresentPath],
    _ followed: [FollowedPath], _ policy: InvalidationPolicy, isOnlyNamed: Bool = false
  ) -> Invalidation.Severity? {
    guard status.category != .unknown else { return nil }
    let isChanged = self.isChanged(by: change, status)
    self.lastKnown = status.category
    let fate = self.fate(in: followed)
    // It is there, and that it is back is not told yet (T1).
    let family = followed.first { $0.id == self.base?.path }?.family
    let isHeld = fate == .alive && family.map { present[$0]?.path != status[$0] } ?? false
    if isChanged, isOnlyNamed, fate == .alive {
      self.settle(on: status, followed)
      return .advise
    }
    if isChanged {
      let isBack = fate == .alive && self.base?.category == status.category
      guard fate == .inDoubt || isBack || isHeld else {
        self.settle(on: status, followed)
        return policy.categoryChanged
      }
      self.base?.isInDoubt = !isBack
      if status.category != .none { self.base?.hasSuccessors = !isBack }
      return .advise
    }
    if let base = self.base, base.isInDoubt {
      guard fate != .inDoubt, !isHeld else { return nil }
      self.settle(on: status, followed)
      // Another path has brought the same category back: lost is only what was on the first, and that hears of it. But under
      // `none` there was nothing, and what came after it is lost.
      let isBack =
        status.category == base.category && !(base.category == .none && base.hasSuccessors)
      return isBack ? nil : policy.categoryChanged
    }
    // With the same category as before, what carries it may be another path by now.
    if fate == .gone || self.base?.category != status.category { self.settle(on: status, followed) }
    return nil
  }

  private func isChanged(by change: Change?, _ status: ConnectivityStatus) -> Bool {
    switch change {
    case .transition(let transition) where transition.from != .unknown: true
    case .transition, .path: self.lastKnown.map { $0 != status.category } ?? false
    case .invalidation, .dns, nil: false
    }
  }

  private func fate(in followed: [FollowedPath]) -> Fate {
    guard let path = followed.first(where: { $0.id == self.base?.path }) else { return .gone }
    return path.tracker.isInDoubt ? .inDoubt : .alive
  }
}
