/// The path to a destination by another link's default route, for use while the default way limps.
///
/// Connections use this path if bound to ``KernelPath/interface`` (`SO_BINDTODEVICE`).
public struct OtherWay: Hashable, Sendable {
  /// The reason why connections may not use the other way.
  @nonexhaustive public enum Reason: String, Hashable, Sendable, CaseIterable {
    /// The traffic is already bound to a link.
    case bound
    /// The traffic has a mark, which routing rules may match.
    case marked
    /// The destination is not a global address: another network may have another host there.
    case notGlobal
    /// The default way is not satisfied, or unknown.
    case noDefaultPath
    /// The default way is a tunnel, or may be one because its medium is unknown.
    case tunnel
    /// A rule, or a route other than the default route, leads to the destination.
    case ownRoute
    /// No other link has a satisfied path by a default route in this family.
    case noOtherPath
    /// The kernel drops answers that arrive on the other link (`rp_filter` 1).
    case strictFilter
    /// The modem is in another operator's network.
    case roaming
    /// Programs should save data on the other path.
    case constrained
    /// The other path costs money, or may cost money, and the user has not allowed that.
    case expensive
    /// The user has forbidden the use of other paths.
    case switchedOff
  }

  /// The other path, or `nil` if connd found none or did not search.
  public var path: KernelPath?
  /// Why connections may not use the path, or `nil` if they may.
  public var whyNot: Reason?

  /// Whether connections may use the path.
  public var isAllowed: Bool { self.path != nil && self.whyNot == nil }

  /// Creates an `OtherWay` that connections may use.
  package init(_ path: KernelPath) { self.path = path }

  /// Creates an `OtherWay` that connections may not use, with the reason.
  package init(_ path: KernelPath? = nil, whyNot: Reason) {
    self.path = path
    self.whyNot = whyNot
  }
}
