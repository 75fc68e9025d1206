extension KernelPath {
  /// Whether traffic on a path reaches the internet, according to other sources (V1).
  ///
  /// connd sends nothing to find out. It passes on what NetworkManager, a router or systemd-networkd
  /// reports. The value never ends a connection (V2).
  public struct Validation: Hashable, Sendable {
    @nonexhaustive public enum State: String, Hashable, Sendable, CaseIterable {
      /// No source has checked. The network may have a ``portal`` nevertheless.
      case unknown
      /// A check met a captive portal: the user has to log in first.
      case portal
      /// The network works, but does not lead to the internet.
      case limited
      /// A check reached the internet.
      case full
    }

    /// The sources, most trusted first.
    @nonexhaustive public enum Source: String, Hashable, Sendable, CaseIterable {
      /// The connectivity check of NetworkManager for the device.
      case networkManager
      /// The captive-portal option of a router advertisement (RFC 8910).
      case routerAdvertisement
      /// The captive portal in the state file of systemd-networkd, from DHCP or a router.
      case networkd
    }

    public var state: State
    /// The source of the state, or of the portal if the state is unknown. `nil` without both.
    public var source: Source?
    /// The URI of the captive portal's API (RFC 8908), or `nil` without one. If the state is unknown,
    /// the user may have logged in already. The network chose this text: do not open it without
    /// asking the user.
    public var portal: String?

    public init(_ state: State, _ source: Source? = nil, portal: String? = nil) {
      self.state = state
      self.source = source
      self.portal = portal
    }

    public static let unknown = Validation(.unknown)

    /// Whether a check reached the internet, or `nil` if no source has an answer.
    public var isValidated: Bool? { self.state == .unknown ? nil : self.state == .full }
  }
}
