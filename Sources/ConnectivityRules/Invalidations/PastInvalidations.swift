package import Connectivity

/// The published invalidations that may apply to a flow that was not guarded for a while.
///
/// Implements rule I7.
package struct PastInvalidations: Sendable {
  /// The invalidations more severe than `advise`, oldest first.
  private let invalidations: [Invalidation]

  /// - Parameter changes: The published changes, oldest first.
  package init(_ changes: some Sequence<ConnectivityChange>) {
    self.invalidations = changes.compactMap { change in
      guard case .invalidation(let invalidation) = change, invalidation.severity != .advise else {
        return nil
      }
      return invalidation
    }
  }

  /// Returns the most severe invalidation of a flow since the generation that its client knew, or
  /// `nil` without one. If several are equal, returns the latest.
  ///
  /// - Parameters:
  ///   - path: The flow's current path.
  ///   - reading: The current reading of the flow.
  package func gravest(
    of flow: Flow, since generation: UInt64?, _ path: KernelPath, _ reading: FlowReading
  ) -> Invalidation? {
    guard let generation, !reading.isLocal else { return nil }
    let covering = self.invalidations.reversed()
      .prefix { $0.generation > generation }
      .filter { $0.covers(flow, path) }
    let gravest = covering.map(\.severity).max()
    return covering.first { $0.severity == gravest }
  }

  /// Returns the latest announcement that channels on a link are lost or should leave it, or `nil`
  /// without one since the generation.
  package func departure(
    from link: String, _ family: AddressFamily, since generation: UInt64?
  ) -> Invalidation? {
    guard let generation else { return nil }
    return self.invalidations.last {
      $0.generation > generation && $0.scope.interface == link
        && $0.scope.family ?? family == family
        && ($0.reason == .interfaceLost || $0.reason == .betterPath)
    }
  }
}

extension Invalidation {
  /// Whether the invalidation applied to a flow that is registered only now.
  ///
  /// Ignores causes that the flow's own path shows. Another category, or a lost link, is irrelevant
  /// to a connection if its address and path still exist (I0).
  fileprivate func covers(_ flow: Flow, _ path: KernelPath) -> Bool {
    guard self.scope != .everything else { return false }
    if let family = self.scope.family, family != flow.destination.address.family { return false }
    if self.scope.destination == .offLink, path.gateway == nil { return false }
    if let addresses = self.scope.localAddresses {
      guard let local = flow.local else { return false }
      return addresses.contains(local)
    }
    // The flow's own address still exists and represents its link. The kernel knows whether the
    // link works, but not which network is behind it.
    guard flow.local == nil || self.reason == .networkChanged else { return false }
    return self.scope.interface == path.interface
  }
}
