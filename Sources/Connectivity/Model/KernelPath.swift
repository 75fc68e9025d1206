/// The kernel's answer for a destination, and connd's assessment of it.
public struct KernelPath: Hashable, Sendable {
  /// Whether traffic can flow.
  @nonexhaustive public enum Status: String, Hashable, Sendable, CaseIterable {
    /// Traffic can flow.
    case satisfied
    /// There is a path, but no traffic passes until a connection is established (K3).
    case requiresConnection
    /// The kernel has no unicast route.
    case unsatisfied
    /// The kernel cannot be queried (K8).
    case unknown
  }

  /// Why a path is not satisfied.
  @nonexhaustive public enum Reason: String, Hashable, Sendable, CaseIterable {
    /// No route matches.
    case noRoute
    /// An `unreachable` route.
    case unreachable
    /// A `prohibit` route.
    case prohibited
    /// A `blackhole` route.
    case blackhole
    /// A `throw` route matches, and no later table has a route.
    case `throw`
    /// A link of the chain has no carrier.
    case noCarrier
    /// A link of the chain waits for something: 802.1X, the Wi-Fi handshake, or a modem that has
    /// not dialled.
    case dormant
    /// A modem in the chain is connected but passes no traffic for the moment, as with 2G during a
    /// call.
    case suspended
    /// A link of the chain is administratively down.
    case linkDown
    /// The source address is missing, tentative, a duplicate, or cannot reach the destination.
    case noSourceAddress
    /// The kernel does not support the family (`ipv6.disable=1`).
    case unsupported
    /// The kernel cannot be queried: netlink is missing, or refuses multicast groups (K8).
    case kernelUnavailable
  }

  public var status: Status
  /// Why the path is not satisfied, or `nil` if it is.
  public var reason: Reason?
  /// The outgoing link and the links below it, from top to bottom. Empty without a path.
  public var chain: [Link]
  /// The medium of the path's lowest link.
  public var medium: NetworkMedium
  /// The evidence for the medium, or `nil` without a path.
  public var evidence: KernelPath.Evidence?
  /// The source address that the kernel would use.
  public var source: IPAddress?
  /// The prefix length of the source address's subnet, in bits, or `nil` if unknown.
  public var sourcePrefixLength: Int?
  /// The gateway, or `nil` if the destination is on the link or the link needs none.
  public var gateway: IPAddress?
  /// The routing table that answered: 254 is main.
  public var table: UInt32?
  /// Whether sending on this path costs money, or `nil` if unknown, as below a tunnel that does not
  /// report its remote endpoint. `false` without a path.
  package var costsMoney: Bool?
  /// How far programs should save data on this path.
  public var constraint: ConstraintLevel
  /// The number of guessed links at the bottom of the chain: those below a tunnel that does not
  /// report its remote endpoint (K6). They determine the medium and the cost, but never whether
  /// traffic can flow.
  public var guessedLinks = 0
  /// Whether traffic on this path reaches the internet, according to other sources.
  public var validation = KernelPath.Validation.unknown
  /// How well this user's traffic passes on the path, as far as connd knows.
  public var quality = LinkQuality.unknown
  /// Why unbound connections may not use this path beside the default path (W5, W6), or `nil` if
  /// they may. Known only if a client follows the path of traffic that is bound to a link.
  package var objection: OtherWay.Reason?

  public init(
    status: Status, reason: Reason? = nil, chain: [Link] = [], medium: NetworkMedium = .unknown,
    evidence: KernelPath.Evidence? = nil, source: IPAddress? = nil, sourcePrefixLength: Int? = nil,
    gateway: IPAddress? = nil, table: UInt32? = nil, isExpensive: Bool? = false,
    constraint: ConstraintLevel = .unconstrained
  ) {
    self.status = status
    self.reason = reason
    self.chain = chain
    self.medium = medium
    self.evidence = evidence
    self.source = source
    self.sourcePrefixLength = sourcePrefixLength
    self.gateway = gateway
    self.table = table
    self.costsMoney = isExpensive
    self.constraint = constraint
  }

  /// Returns whether a stream reports the path after `other`. Only the properties that are listed
  /// here count, so a new property does not add elements to streams.
  package func isNew(after other: KernelPath) -> Bool {
    self.status != other.status || self.reason != other.reason || self.chain != other.chain
      || self.guessedLinks != other.guessedLinks || self.medium != other.medium
      || self.source != other.source || self.gateway != other.gateway || self.table != other.table
      || self.costsMoney != other.costsMoney
      || self.constraint != other.constraint || self.validation != other.validation
      || self.quality != other.quality || self.objection != other.objection
  }

  /// The name of the outgoing link.
  public var interface: String? { self.chain.first?.name }

  /// Whether programs should save data on this path.
  public var isConstrained: Bool { self.constraint != .unconstrained }

  /// Whether sending on this path costs money, or `nil` if unknown, as below a tunnel that does not
  /// report its remote endpoint, or without a path.
  public var isExpensive: Bool? {
    let hasLinks = self.status == .satisfied || self.status == .requiresConnection
    return hasLinks ? self.costsMoney : nil
  }

  package var isMetered: Bool { self.costsMoney == true }
  package var isCostUnknown: Bool { self.costsMoney == nil }

  /// Whether the packets seem to come from a translator of IPv4 to IPv6 (K9). They may also be
  /// those of DS-Lite, because the path does not contain the kind of its link.
  package var isFromTranslator: Bool {
    self.source?.isOfTranslator == true && self.gateway?.family != .ipv4
  }

  /// The chain without the guessed links.
  package var certainChain: ArraySlice<Link> { self.chain.dropLast(self.guessedLinks) }

  /// Returns whether the source addresses are in the same subnet: one prefix contains the other
  /// address. For example, a host's /64 from a router advertisement contains its /128 from DHCPv6.
  /// Two addresses from DHCPv6 are compared by their /64s (RFC 4291, 2.5.4).
  package func isOfSameSubnet(as other: KernelPath) -> Bool {
    guard let source = self.source, let otherSource = other.source else {
      return self.source == other.source
    }
    if source == otherSource { return true }
    func contains(_ path: KernelPath, _ address: IPAddress) -> Bool {
      guard let source = path.source, let length = path.sourcePrefixLength else { return false }
      let isWholeIPv6 = length == 128 && source.family == .ipv6
      return IPPrefix(source, length: isWholeIPv6 ? 64 : length)?.contains(address) ?? false
    }
    return contains(self, otherSource) || contains(other, source)
  }

  /// Returns an unsatisfied path with a reason.
  public static func unsatisfied(_ reason: Reason) -> KernelPath {
    KernelPath(status: .unsatisfied, reason: reason)
  }

  /// The path while the kernel cannot be queried.
  public static let unknown = KernelPath(status: .unknown, reason: .kernelUnavailable)
}

extension KernelPath {
  /// A link in a path. The index distinguishes links that had the same name at different times.
  public struct Link: Hashable, Sendable {
    public var index: UInt32
    public var name: String

    public init(index: UInt32, name: String) {
      self.index = index
      self.name = name
    }
  }

  /// The evidence for a link's medium: the source by rule K5, and its value.
  public struct Evidence: Hashable, Sendable {
    /// The sources of rule K5, most trusted first.
    @nonexhaustive public enum Source: String, Hashable, Sendable, CaseIterable {
      /// The configuration's `links`.
      case configuration
      /// `IFLA_INFO_KIND`
      case kind
      /// The ARPHRD type.
      case hardwareType
      /// `DEVTYPE` in the link's sysfs `uevent`.
      case deviceType
      /// A `phy80211` in the link's sysfs directory.
      case phy80211
      /// The data of nl80211.
      case nl80211
      /// ModemManager reports that the link belongs to a modem.
      case modemManager
      /// The name of the device's driver.
      case driver
      /// A name prefix that is known for one medium.
      case name
      /// No source had evidence.
      case none
    }

    public var source: Source
    /// The value as reported by the source: `wlan`, `qmi_wwan`, `wwan*`.
    public var value: String
    public var medium: NetworkMedium

    package init(_ source: Source, _ value: String, _ medium: NetworkMedium) {
      self.source = source
      self.value = value
      self.medium = medium
    }
  }

  /// Whether traffic on a path reaches the internet, according to other sources (V1).
  ///
  /// connd sends nothing to find out. It passes on what NetworkManager, a router or
  /// systemd-networkd reports. The value never ends a connection (V2).
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
    /// The URI of the captive portal's API (RFC 8908), or `nil` without one. If the state is
    /// unknown, the user may have logged in already. The network chose this text: do not open it
    /// without asking the user.
    public var portal: String?

    package init(_ state: State, _ source: Source? = nil, portal: String? = nil) {
      self.state = state
      self.source = source
      self.portal = portal
    }

    public static let unknown = Validation(.unknown)

    /// Whether a check reached the internet, or `nil` if no source has an answer.
    public var isValidated: Bool? { self.state == .unknown ? nil : self.state == .full }
  }
}
