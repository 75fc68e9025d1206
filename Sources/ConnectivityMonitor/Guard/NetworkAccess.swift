public import Connectivity

/// The networks that an application may use, by cost and medium.
///
/// Named as in `URLRequest`. A ``PathMonitor`` reports any other path as unsatisfied. A connection
/// is invalidated if its path becomes forbidden (C8, I8). If connd is not running, the network is
/// unknown, and ``whenUnknown`` decides (C7).
public struct NetworkAccess: Hashable, Sendable {
  /// Whether paths that cost money may be used: cellular networks, a phone's hotspot.
  public var allowsExpensiveAccess: Bool
  /// Whether constrained paths may be used, on which programs should save data.
  public var allowsConstrainedAccess: Bool
  /// Media that may not be used, whatever they cost.
  public var prohibitedMedia: Set<NetworkMedium>
  /// The behaviour if one of the other properties restricts access and the network is unknown.
  public var whenUnknown: WhenUnknown

  /// The behaviour of restricted access if the network is unknown: connd is not running, is silent
  /// for five seconds, or cannot query the kernel.
  ///
  /// Decides whether a call, a connection or discretionary work may begin, but never ends one. A
  /// path that a ``PathMonitor`` yields stays unknown.
  @nonexhaustive public enum WhenUnknown: Hashable, Sendable {
    /// The network may be used, because a missing connd must not block an application (C7).
    case allow
    /// The network may not be used. Calls and connections fail with `NetworkUnavailableError` and
    /// the reason `NetworkUnavailableError.Reason.unknown`. Discretionary work waits.
    case refuse
  }

  public init(
    allowsExpensiveAccess: Bool = true, allowsConstrainedAccess: Bool = true,
    prohibitedMedia: Set<NetworkMedium> = [], whenUnknown: WhenUnknown = .allow
  ) {
    self.allowsExpensiveAccess = allowsExpensiveAccess
    self.allowsConstrainedAccess = allowsConstrainedAccess
    self.prohibitedMedia = prohibitedMedia
    self.whenUnknown = whenUnknown
  }

  /// Whether every network may be used.
  package var isUnrestricted: Bool {
    self.allowsExpensiveAccess && self.allowsConstrainedAccess && self.prohibitedMedia.isEmpty
  }

  /// Allows every network.
  public static let unrestricted = NetworkAccess()

  /// Forbids paths that are known to cost money, and constrained ones.
  public static let inexpensive = NetworkAccess(
    allowsExpensiveAccess: false, allowsConstrainedAccess: false)

  /// Allows only paths with one of these media at the lowest link.
  public static func requiring(_ media: Set<NetworkMedium>) -> NetworkAccess {
    NetworkAccess(prohibitedMedia: Set(NetworkMedium.allCases).subtracting(media))
  }

  /// Returns the networks that both allow. An unknown network is refused if either refuses it.
  public func intersection(_ other: NetworkAccess) -> NetworkAccess {
    // Most calls return here.
    if other == .unrestricted { return self }
    return NetworkAccess(
      allowsExpensiveAccess: self.allowsExpensiveAccess && other.allowsExpensiveAccess,
      allowsConstrainedAccess: self.allowsConstrainedAccess && other.allowsConstrainedAccess,
      prohibitedMedia: self.prohibitedMedia.union(other.prohibitedMedia),
      whenUnknown: self.whenUnknown == .refuse ? .refuse : other.whenUnknown)
  }

  /// Returns why `path` may not be used, or `nil` if it may. An unsatisfied path is not forbidden.
  /// For an unknown path, ``whenUnknown`` decides.
  ///
  /// If several reasons apply, the medium comes first, then constrained, then expensive.
  public func refusal(of path: KernelPath) -> NetworkUnavailableError? {
    if path.status == .unknown {
      let isRefused = self.whenUnknown == .refuse && !self.isUnrestricted
      return isRefused ? NetworkUnavailableError(reason: .unknown, path: path) : nil
    }
    guard path.status == .satisfied || path.status == .requiresConnection else { return nil }
    let reason: NetworkUnavailableError.Reason
    if self.prohibitedMedia.contains(path.medium) {
      reason = .init(path.medium)
    } else if !self.allowsConstrainedAccess, path.isConstrained {
      reason = .constrained
    } else if !self.allowsExpensiveAccess, path.isMetered {
      reason = .expensive
    } else {
      return nil
    }
    return NetworkUnavailableError(reason: reason, path: path)
  }
}
