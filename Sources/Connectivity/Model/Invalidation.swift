/// The statement that channels of a scope are no longer viable (I9).
public struct Invalidation: Hashable, Sendable {
  public var generation: UInt64
  public var reason: Reason
  public var severity: Severity
  public var scope: Scope
  public var cause: Cause
  /// When it was published.
  public var time: Timestamp

  public init(
    generation: UInt64, reason: Reason, severity: Severity, scope: Scope, cause: Cause,
    time: Timestamp
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
  /// Why channels are no longer viable. Where several hold, the first in this order is named.
  @nonexhaustive public enum Reason: String, Hashable, Sendable, CaseIterable {
    /// Their source address is gone (I1).
    case sourceAddressLost
    /// A link of their path is gone, down or without a carrier, or no route is left (I2, I10).
    case interfaceLost
    /// The link is the same, and the network behind it is another (I4).
    case networkChanged
    /// The category changed: all earlier channels are assumed broken (I5).
    case categoryChanged
    /// The system now sends by another link, or from a source address of another prefix (I3).
    case betterPath
    /// The path became one that the channel forbids (I8).
    case policy
    /// The machine slept (I6).
    case resumed
    /// After a change of the network the peer has not answered several transmissions in a row,
    /// although the kernel still has a path (E2).
    case silent
  }

  /// What is to be done with the channels, the gravest first.
  public enum Severity: String, Hashable, Sendable, CaseIterable, Comparable {
    /// Fail what is in flight, close the connection, connect anew.
    case destroy
    /// Let what is in flight finish, send what is new by a new connection.
    case drain
    /// Information: the path is in doubt. It may come back, or a `destroy` may follow.
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

  /// Which channels: those to which all that is set applies. It names what they were on, not what there is now.
  public struct Scope: Hashable, Sendable {
    /// The out-link of their path; `nil`: any.
    public var interface: String?
    public var family: AddressFamily?
    /// Their local address is one of these; `nil`: any.
    public var localAddresses: [IPAddress]?
    /// Where they lead to; `nil`: anywhere.
    public var destination: Destination?

    public init(
      interface: String? = nil, family: AddressFamily? = nil, localAddresses: [IPAddress]? = nil,
      destination: Destination? = nil
    ) {
      self.interface = interface
      self.family = family
      self.localAddresses = localAddresses
      self.destination = destination
    }

    /// What a remote address has to be.
    @nonexhaustive public enum Destination: Hashable, Sendable, CustomStringConvertible {
      /// In none of the link's own subnets, so that it is reached by a gateway.
      case offLink
      case address(IPAddress)

      public var description: String {
        switch self {
        case .offLink: "offLink"
        case .address(let address): address.description
        }
      }
    }

    /// All channels (but those that never leave the machine).
    public static let everything = Scope()
  }
}
