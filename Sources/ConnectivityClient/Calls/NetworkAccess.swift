public import Connectivity
internal import ConnectivitySession
internal import GRPCCore

/// What a channel or a call may cost: the networks that it may use.
///
/// Named as in `URLRequest`. A call that may not use the path to its destination fails at once with `UNAVAILABLE`
/// and a ``NetworkUnavailable`` as the cause; a channel whose path becomes one that it may not use is invalidated (C8, I8).
/// Where nobody knows what the path costs, because connd is not there, everything is allowed (C7).
public struct NetworkAccess: Hashable, Sendable {
  /// Whether paths that cost money may be used: cellular networks, a telephone's hotspot.
  public var allowsExpensiveAccess: Bool
  /// Whether paths may be used on which the user asked to save data.
  public var allowsConstrainedAccess: Bool
  /// Media that may not be used, whatever they cost.
  public var prohibitedMedia: Set<Medium>

  public init(
    allowsExpensiveAccess: Bool = true, allowsConstrainedAccess: Bool = true,
    prohibitedMedia: Set<Medium> = []
  ) {
    self.allowsExpensiveAccess = allowsExpensiveAccess
    self.allowsConstrainedAccess = allowsConstrainedAccess
    self.prohibitedMedia = prohibitedMedia
  }

  /// Whether every network may be used.
  var isUnrestricted: Bool {
    self.allowsExpensiveAccess && self.allowsConstrainedAccess && self.prohibitedMedia.isEmpty
  }

  /// Every network may be used.
  public static let unrestricted = NetworkAccess()

  /// Only paths that cost no money, and on which the user did not ask to save data.
  public static let inexpensive = NetworkAccess(
    allowsExpensiveAccess: false, allowsConstrainedAccess: false)

  /// Only paths that one of these media carries at the bottom.
  public static func requiring(_ media: Set<Medium>) -> NetworkAccess {
    NetworkAccess(prohibitedMedia: Set(Medium.allCases).subtracting(media))
  }

  /// What both allow.
  public func intersection(_ other: NetworkAccess) -> NetworkAccess {
    // As with most calls.
    if other.isUnrestricted { return self }
    return NetworkAccess(
      allowsExpensiveAccess: self.allowsExpensiveAccess && other.allowsExpensiveAccess,
      allowsConstrainedAccess: self.allowsConstrainedAccess && other.allowsConstrainedAccess,
      prohibitedMedia: self.prohibitedMedia.union(other.prohibitedMedia))
  }

  /// Why `path` may not be used; `nil` where it may. A path that leads nowhere is not forbidden.
  ///
  /// Where several reasons hold, the medium is named before the user's wish to save data, and that before the money.
  public func refusal(of path: Path) -> NetworkUnavailable? {
    guard path.status == .satisfied || path.status == .requiresConnection else { return nil }
    let reason: NetworkUnavailable.Reason
    if self.prohibitedMedia.contains(path.medium) {
      reason = .init(path.medium)
    } else if !self.allowsConstrainedAccess, path.isConstrained {
      reason = .constrained
    } else if !self.allowsExpensiveAccess, path.isExpensive {
      reason = .expensive
    } else {
      return nil
    }
    return NetworkUnavailable(reason: reason, path: path)
  }
}

extension Connection {
  /// Looks whether a call may use the network that the connection is on.
  ///
  /// - Parameter deadline: When the call is over.
  /// - Throws: `RPCError` where it may not (C8).
  func check(
    _ access: NetworkAccess, until deadline: ContinuousClock.Instant?
  ) async throws(RPCError) {
    if self.path == nil {
      // connd was silent for so long that the connection did not wait for it.
      let patience = ConnectionGuard.patience(isRestricted: true)
      let rest = deadline.map { ContinuousClock.now.duration(to: $0) } ?? patience
      _ = await self.flow?.answer(within: min(patience, rest))
    }
    if let refusal = self.path.flatMap({ access.refusal(of: $0) }) { throw RPCError(refusal) }
  }
}
