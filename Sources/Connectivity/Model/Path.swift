/// The kernel's answer for a destination, and what it is worth.
public struct Path: Hashable, Sendable {
  /// Whether traffic flows.
  public enum Status: String, Hashable, Sendable, CaseIterable {
    /// Traffic flows.
    case satisfied
    /// There is a path, but it carries nothing before a connection is established (K3).
    case requiresConnection
    /// The kernel has no unicast route.
    case unsatisfied
    /// The kernel cannot be asked (K8).
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
    /// A `throw` route, and no table after it answers.
    case `throw`
    /// A link of the chain has no carrier.
    case noCarrier
    /// A link of the chain waits for something: 802.1X, the Wi-Fi handshake, a modem that has not dialled.
    case dormant
    /// The modem of a link of the chain is on the network, and carries nothing for the moment: of 2G, during a call.
    case suspended
    /// A link of the chain is administratively down.
    case linkDown
    /// No usable source address: none, tentative, DAD failed, or one that does not reach the destination.
    case noSourceAddress
    /// The kernel does not have the family (`ipv6.disable=1`).
    case unsupported
    /// The link flaps and a gain is held back (T1).
    case flapping
    /// The kernel cannot be asked: no netlink, or refused groups (K8).
    case kernelUnavailable
  }

  public var status: Status
  /// `nil` where the path is satisfied.
  public var reason: Reason?
  /// The out-link and what is below it, the out-link first; empty where there is no path.
  public var chain: [PathLink]
  /// What carries the path at the bottom.
  public var medium: Medium
  /// Why it is taken for that; `nil` where there is no path.
  public var evidence: Evidence?
  /// The source address that the kernel would take.
  public var source: IPAddress?
  /// The length of the subnet that the source address is in, in bits; `nil` where it is not known.
  public var sourcePrefixLength: Int?
  /// `nil` where the destination is on the link, or the link needs none.
  public var gateway: IPAddress?
  /// The routing table that answered: 254 is main.
  public var table: UInt32?
  /// It costs money to send by this path. `false` as well if that is not known.
  public var isExpensive: Bool
  /// Whether it is unknown what sending by this path costs, as below a tunnel that does not tell.
  public var isCostUnknown = false
  /// The user asked to save data on this path.
  public var isConstrained: Bool
  /// How many links at the bottom of the chain are guessed: those below a tunnel that does not tell its other end (K6). They decide
  /// about the medium and what it costs, and never about whether traffic flows.
  public var guessedLinks = 0

  public init(
    status: Status, reason: Reason? = nil, chain: [PathLink] = [], medium: Medium = .unknown,
    evidence: Evidence? = nil, source: IPAddress? = nil, sourcePrefixLength: Int? = nil,
    gateway: IPAddress? = nil, table: UInt32? = nil, isExpensive: Bool = false,
    isConstrained: Bool = false
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
    self.isExpensive = isExpensive
    self.isConstrained = isConstrained
  }

  /// The out-link's name.
  public var interface: String? { self.chain.first?.name }

  /// Whether sending by this path costs money, or `nil` if that is not known: also if there is no path yet.
  public var costsMoney: Bool? {
    let hasLinks = self.status == .satisfied || self.status == .requiresConnection
    return hasLinks && !self.isCostUnknown ? self.isExpensive : nil
  }

  /// The chain without what is guessed.
  package var certainChain: ArraySlice<PathLink> { self.chain.dropLast(self.guessedLinks) }

  /// Whether the source addresses are of one subnet: one prefix contains the other's address, as an IPv6 host's /64 by router
  /// advertisement and its /128 by DHCPv6 do. Of two that are both by DHCPv6 the subnets are their /64s (RFC 4291, 2.5.4).
  public func isOfSameSubnet(as other: Path) -> Bool {
    guard let source = self.source, let otherSource = other.source else {
      return self.source == other.source
    }
    if source == otherSource { return true }
    func contains(_ path: Path, _ address: IPAddress) -> Bool {
      guard let source = path.source, let length = path.sourcePrefixLength else { return false }
      let isWholeIPv6 = length == 128 && source.family == .ipv6
      return IPPrefix(source, length: isWholeIPv6 ? 64 : length)?.contains(address) ?? false
    }
    return contains(self, otherSource) || contains(other, source)
  }

  /// No path, because of `reason`.
  public static func unsatisfied(_ reason: Reason) -> Path {
    Path(status: .unsatisfied, reason: reason)
  }

  /// The kernel cannot be asked.
  public static let unknown = Path(status: .unknown, reason: .kernelUnavailable)
}

/// A link as part of a path. The index tells apart links that bore the same name one after the other.
public struct PathLink: Hashable, Sendable {
  public var index: UInt32
  public var name: String

  public init(index: UInt32, name: String) {
    self.index = index
    self.name = name
  }
}
