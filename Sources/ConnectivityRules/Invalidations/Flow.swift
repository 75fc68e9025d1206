package import Connectivity

/// One connection that somebody wants to be told about.
package struct Flow: Hashable, Sendable {
  /// The other end, whose traffic it is, its ports, and what it is bound to. Its `source` is not set: `local` says what is
  /// known.
  package var destination: Destination
  /// The connection's own address; `nil` before it is known, and then the kernel's choice is taken for it.
  package var local: IPAddress?
  /// It must not use a path that costs money (I8).
  package var forbidsExpensive: Bool
  /// It must not use a path on which the user asked to save data (I8).
  package var forbidsConstrained: Bool

  package init(
    _ destination: Destination, local: IPAddress? = nil, forbidsExpensive: Bool = false,
    forbidsConstrained: Bool = false
  ) {
    self.destination = destination
    self.local = local
    self.forbidsExpensive = forbidsExpensive
    self.forbidsConstrained = forbidsConstrained
  }

  /// Whether it names exactly one TCP socket of this machine, which can be asked.
  package var namesSocket: Bool {
    var destination = self.destination
    destination.source = self.local
    return destination.namesSocket
  }
}

/// What one reading of the kernel shows of a flow (I0): asked with all that is the flow's own, by which way does the kernel
/// send it?
package struct FlowReading: Hashable, Sendable {
  /// The flow's own way. Of a flow inside a tunnel the status is that of the way into the tunnel: what is below may move.
  package var path: Path
  package var network: NetworkIdentity
  /// The flow's own address is none of this machine's any more.
  package var isSourceGone: Bool
  /// Its address is none of the link's that it was made on: another link may carry it.
  package var isSourceElsewhere: Bool
  /// A VPN by IPsec has given it its address, and moves that with its tunnel (RFC 4555): from one link to another, too.
  package var isSourceGiven: Bool
  /// The remote address is this machine's own.
  package var isLocal: Bool
  /// What answers the flow is dropped as it comes in: strict reverse path filtering expects it by another link.
  package var areRepliesRefused = false
  /// What became of the link that the flow was made on; `nil` where its way still leads over that.
  package var formerLink: FormerLink?
  /// What new connections to the same destination get; `nil` where that is the flow's own way and subnet.
  package var alternative: Alternative?
  package var guesses: Guesses

  /// What of the path's cost is a guess.
  package struct Guesses: Hashable, Sendable {
    package var isExpensive: Bool
    package var isConstrained: Bool

    package init(isExpensive: Bool = false, isConstrained: Bool = false) {
      self.isExpensive = isExpensive
      self.isConstrained = isConstrained
    }
  }

  /// A link that a flow's way does not lead over any more.
  package enum FormerLink: Hashable, Sendable {
    /// It is gone, or carries nothing.
    case failed
    /// It carries traffic, and no route leads over it to the flow's destination.
    case withoutRoute
    /// It carries traffic, and the route that led over it has just been removed: there is another, which would not be taken.
    case withWorseRoute
    /// It carries traffic, its route is there, and another is preferred.
    case withRoute
    /// The flow does not depend on it: its address is good for the way that it takes now, or the route has several legs.
    case untied
    /// It is one of several legs of the flow's route, and has the flow's address: the connection may be on it still.
    case leg
  }

  /// A way that the kernel prefers for new connections.
  package struct Alternative: Hashable, Sendable {
    /// The index of the out-link.
    package var link: UInt32?
    package var source: IPAddress?
    /// A rule or a route of its own keeps the flow on its way.
    package var isKept: Bool

    package init(link: UInt32?, source: IPAddress?, isKept: Bool) {
      self.link = link
      self.source = source
      self.isKept = isKept
    }
  }

  package init(
    _ path: Path, network: NetworkIdentity = NetworkIdentity(), isSourceGone: Bool = false,
    isSourceElsewhere: Bool = false, isSourceGiven: Bool = false, isLocal: Bool = false,
    formerLink: FormerLink? = nil,
    alternative: Alternative? = nil,
    guesses: Guesses = Guesses()
  ) {
    self.path = path
    self.network = network
    self.isSourceGone = isSourceGone
    self.isSourceElsewhere = isSourceElsewhere
    self.isSourceGiven = isSourceGiven
    self.isLocal = isLocal
    self.formerLink = formerLink
    self.alternative = alternative
    self.guesses = guesses
  }

  /// The kernel cannot be asked (K8).
  package static let unknown = FlowReading(.unknown)
}
