package import Connectivity

/// The path of traffic that is bound to a link, in one address family.
package struct Uplink: Hashable, Sendable {
  package enum State: Hashable, Sendable {
    /// connd has not reported the path, or is not running. The link's endpoints stay unchanged.
    case unknown
    /// The link has no default path.
    case lost
    /// A satisfied default path from this address.
    ///
    /// - isFree: Whether it costs nothing. A path of unknown cost is not free.
    /// - limps: Whether connections over other links work while connections over this link do not
    ///   (Q2).
    case usable(IPAddress, isFree: Bool, limps: Bool = false)
  }

  package var link: UInt32
  package var family: AddressFamily
  package var state: State
  /// Whether traffic that is not bound to a link uses this link.
  package var isDefault: Bool
  /// Why connections may not use the link beside the default path, or `nil` if they may (W5, W6).
  package var objection: OtherWay.Reason?

  package init(
    link: UInt32, family: AddressFamily = .ipv4, _ state: State, isDefault: Bool = false,
    objection: OtherWay.Reason? = nil
  ) {
    self.link = link
    self.family = family
    self.state = state
    self.isDefault = isDefault
    self.objection = objection
  }

  /// Whether the default path is lost, or not all paths are known yet. Endpoints stay, and no
  /// endpoint is added.
  var isPostponed: Bool { self.objection == .noDefaultPath }
}
