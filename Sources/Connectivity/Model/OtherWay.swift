/// The path to a destination by another link's default route, for use while the default way limps.
///
/// A connection takes it if it is bound to ``KernelPath/interface`` (`SO_BINDTODEVICE`).
public struct OtherWay: Hashable, Sendable {
  /// Why no connection may take another way.
  @nonexhaustive public enum Reason: String, Hashable, Sendable, CaseIterable {
    /// The traffic is bound to a link already.
    case bound
    /// The traffic has a mark, which routing rules may match.
    case marked
    /// The destination is not a global address: another network may have another host there.
    case notGlobal
    /// The default way is not satisfied, or unknown.
    case noDefaultPath
    /// The default way is a tunnel, or its medium is unknown, so that it may be one.
    case tunnel
    /// A rule, or a route other than the default route, leads to the destination.
    case ownRoute
    /// No other link has a satisfied path by a default route in this family.
    case noOtherPath
    /// The kernel drops answers that arrive on the other link (`rp_filter` 1).
    case strictFilter
    /// The modem is in another operator's network.
    case roaming
    /// The user asked to save data on the other path.
    case constrained
    /// The other path costs money, or may cost money, and the user has not allowed that.
    case expensive
    /// The user has forbidden the use of other paths.
    case switchedOff
  }

  /// The other path, or `nil` if none was found or looked for.
  public var path: KernelPath?
  /// Why it may not be used, or `nil` if it may.
  public var whyNot: Reason?

  /// Whether connections may take it.
  public var isAllowed: Bool { self.path != nil && self.whyNot == nil }

  /// A way that may be used.
  public init(_ path: KernelPath) { self.path = path }

  /// A way that may not be used.
  public init(_ path: KernelPath? = nil, whyNot: Reason) {
    self.path = path
    self.whyNot = whyNot
  }
}
