/// An announcement that the channels in a scope are no longer viable (I9).
public struct Invalidation: Hashable, Sendable {
  public var generation: UInt64
  public var reason: Reason
  public var severity: Severity
  public var scope: Scope
  public var cause: ChangeCause
  /// The time of publication.
  public var time: WallTime

  package init(
    generation: UInt64, reason: Reason, severity: Severity, scope: Scope, cause: ChangeCause,
    time: WallTime
  ) {
    self.generation = generation
    self.reason = reason
    self.severity = severity
    self.scope = scope
    self.cause = cause
    self.time = time
  }
}

extension Invalidation {
  /// The reason why channels are no longer viable. If several reasons apply, the first in this
  /// order is reported.
  @nonexhaustive public enum Reason: String, Hashable, Sendable, CaseIterable {
    /// The channels' source address is gone (I1).
    case sourceAddressLost
    /// A link of the channels' path is gone, down or without carrier, or no route is left (I2,
    /// I10).
    case interfaceLost
    /// The link is the same, but another network is behind it (I4).
    case networkChanged
    /// The category changed: all earlier channels are assumed broken (I5).
    case categoryChanged
    /// The kernel now uses another link, or a source address with another prefix (I3).
    case betterPath
    /// The path now has a property that the channel forbids (I8).
    case policy
    /// The machine resumed from sleep (I6).
    case resumed
    /// The peer has left several transmissions in a row unanswered since the network changed,
    /// although the kernel still has a path (E2). A channel of `ConnectivityClient` also reports it
    /// if another link reaches the same peer (W8).
    case silent
  }

  /// How a client should treat the channels, most severe first.
  @nonexhaustive public enum Severity: String, Hashable, Sendable, CaseIterable, Comparable {
    /// Fail the calls in flight, close the connection, and reconnect.
    case destroy
    /// Let the calls in flight finish, and use a new connection for new calls.
    case drain
    /// For information: the path is in doubt. It may recover, or a `destroy` may follow.
    case advise

    public static func < (lhs: Self, rhs: Self) -> Bool { lhs.rank < rhs.rank }

    private var rank: Int {
      switch self {
      case .destroy: 2
      case .drain: 1
      case .advise: 0
      }
    }
  }

  /// The channels that match all properties that are set. The scope names the path that the
  /// channels used, not the current one.
  public struct Scope: Hashable, Sendable {
    /// The outgoing link of the channels' path, or `nil` for any link.
    public var interface: String?
    public var family: AddressFamily?
    /// The possible local addresses of the channels, or `nil` for any.
    public var localAddresses: [IPAddress]?
    /// The destination of the channels, or `nil` for any.
    public var destination: Destination?

    package init(
      interface: String? = nil, family: AddressFamily? = nil, localAddresses: [IPAddress]? = nil,
      destination: Destination? = nil
    ) {
      self.interface = interface
      self.family = family
      self.localAddresses = localAddresses
      self.destination = destination
    }

    /// A condition for the remote address.
    @nonexhaustive public enum Destination: Hashable, Sendable, CustomStringConvertible {
      /// A destination outside the link's own subnets, which needs a gateway.
      case offLink
      case address(IPAddress)

      public var description: String {
        switch self {
        case .offLink: "offLink"
        case .address(let address): address.description
        }
      }
    }

    /// All channels to other machines.
    public static let everything = Scope()
  }
}
