/// One connection that somebody wants to be told about.
public struct Flow: Hashable, Sendable {
  /// The other end, whose traffic it is, its ports, and what it is bound to. Its `source` is not set: `local` says what is
  /// known.
  public var destination: Destination
  /// The connection's own address; `nil` before it is known, and then the kernel's choice is taken for it.
  public var local: IPAddress?
  /// It must not use a path that costs money (I8).
  public var forbidsExpensive: Bool
  /// It must not use a path on which the user asked to save data (I8).
  public var forbidsConstrained: Bool

  public init(
    _ destination: Destination, local: IPAddress? = nil, forbidsExpensive: Bool = false,
    forbidsConstrained: Bool = false
  ) {
    self.destination = destination
    self.local = local
    self.forbidsExpensive = forbidsExpensive
    self.forbidsConstrained = forbidsConstrained
  }
}

/// What one reading of the kernel shows of a flow (I0): asked with all that is the flow's own, by which way does the kernel
/// send it?
public struct FlowReading: Hashable, Sendable {
  /// The flow's own way. Of a flow inside a tunnel the status is that of the way into the tunnel: what is below may move.
  public var path: Path
  public var network: NetworkIdentity
  /// The flow's own address is none of this machine's any more.
  public var isSourceGone: Bool
  /// The remote address is this machine's own.
  public var isLocal: Bool
  /// What became of the link that the flow was made on; `nil` where its way still leads over that.
  public var formerLink: FormerLink?
  /// What new connections to the same destination get; `nil` where that is the flow's own way and subnet.
  public var alternative: Alternative?

  /// A link that a flow's way does not lead over any more.
  public enum FormerLink: Hashable, Sendable {
    /// It is gone, or carries nothing.
    case failed
    /// It carries traffic, and no route leads over it to the flow's destination.
    case withoutRoute
    /// It carries traffic, its route is there, and another is preferred.
    case withRoute
    /// The flow does not depend on it: its address is none of the link's, or the route has several legs.
    case untied
  }

  /// A way that the kernel prefers for new connections.
  public struct Alternative: Hashable, Sendable {
    /// The index of the out-link.
    public var link: UInt32?
    public var source: IPAddress?
    /// A rule or a route of its own keeps the flow on its way.
    public var isKept: Bool

    public init(link: UInt32?, source: IPAddress?, isKept: Bool) {
      self.link = link
      self.source = source
      self.isKept = isKept
    }
  }

  public init(
    _ path: Path, network: NetworkIdentity = NetworkIdentity(), isSourceGone: Bool = false,
    isLocal: Bool = false, formerLink: FormerLink? = nil, alternative: Alternative? = nil
  ) {
    self.path = path
    self.network = network
    self.isSourceGone = isSourceGone
    self.isLocal = isLocal
    self.formerLink = formerLink
    self.alternative = alternative
  }

  /// The kernel cannot be asked (K8).
  public static let unknown = FlowReading(.unknown)
}
