internal import Connectivity
internal import ConnectivitySession

/// What a channel does when connd says that its connection is no longer viable.
public enum InvalidationHandling: Sendable {
  /// Calls in flight end with `UNAVAILABLE` at once, and the connection is closed (C2). The default.
  case destroy
  /// Calls in flight go on as long as they can, new calls make a new connection. Where they certainly cannot, because the
  /// connection's address, its link or its network is gone, it is destroyed.
  case drain
  /// Asked each time. The closure must not block; it is called on a thread of NIO's.
  case custom(@Sendable (FlowInvalidation) -> Action)

  /// What becomes of one connection.
  public enum Action: Hashable, Sendable {
    /// Its calls end with `UNAVAILABLE`.
    case destroy
    /// Its calls go on, new ones make a new connection.
    case drain
    /// It stays in use.
    case keep
  }

  /// An invalidation that only advises changes nothing, and one that drains does not destroy.
  func action(for invalidation: FlowInvalidation) -> Action {
    switch (self, invalidation.severity) {
    case (.custom(let choose), _): choose(invalidation)
    case (_, .advise): .keep
    case (_, .drain): .drain
    case (.drain, .destroy): invalidation.isSurvivable ? .drain : .destroy
    case (.destroy, .destroy): .destroy
    }
  }
}

extension FlowInvalidation {
  /// Whether the connection may still work: what it was made on is there.
  var isSurvivable: Bool {
    switch self.reason {
    case .betterPath, .categoryChanged, .policy, .resumed, .silent: true
    case .sourceAddressLost, .interfaceLost, .networkChanged: false
    }
  }
}
