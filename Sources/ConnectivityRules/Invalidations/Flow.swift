package import Connectivity

/// A connection that a client wants to guard.
package struct Flow: Hashable, Sendable {
  /// The remote address, user, ports and bound link. Its `source` is not set: `local` is the
  /// source.
  package var destination: Destination
  /// The connection's own address, or `nil` before it is known. Then the kernel's choice is used.
  package var local: IPAddress?
  /// Whether the flow must not use a metered path (I8).
  package var forbidsExpensive: Bool
  /// Whether the flow must not use a constrained path, on which programs should save data (I8).
  package var forbidsConstrained: Bool
  /// How the flow's owner can ask the peer for a sign of life (E4).
  package var question: PeerQuestion
  /// Whether the connection can move to another path (I12).
  package var migrates: Bool

  package init(
    _ destination: Destination, local: IPAddress? = nil, forbidsExpensive: Bool = false,
    forbidsConstrained: Bool = false, question: PeerQuestion = .none,
    migrates: Bool = false
  ) {
    self.destination = destination
    self.local = local
    self.forbidsExpensive = forbidsExpensive
    self.forbidsConstrained = forbidsConstrained
    self.question = question
    self.migrates = migrates
  }

  /// Whether the flow's owner can ask the peer on a path that the flow does not forbid (E4). A
  /// connection within this machine needs no question.
  package func canBeAsked(on path: KernelPath) -> Bool {
    self.question != .none && path.medium != .loopback && !self.forbids(path)
  }

  /// Whether the flow must not use a path because of its cost (I8).
  package func forbids(_ path: KernelPath) -> Bool {
    self.forbidsExpensive && path.isMetered || self.forbidsConstrained && path.isConstrained
  }

  /// The flow after its connection has moved to another path. The kernel or the library chooses the
  /// new address.
  package var migrated: Flow {
    var flow = self
    flow.local = nil
    return flow
  }

  /// Whether the flow names exactly one TCP socket of this machine, which can be queried.
  package var namesSocket: Bool {
    var destination = self.destination
    destination.source = self.local
    return destination.namesSocket
  }
}

/// A flow as one reading of the kernel shows it (I0), from a lookup with all properties of the
/// flow.
package struct FlowReading: Hashable, Sendable {
  /// The flow's own path. For a flow inside a tunnel, the status is that of the path into the
  /// tunnel, because the path below may change.
  package var path: KernelPath
  package var network: NetworkIdentity
  /// How the flow's own address was lost, or `nil` if this machine has the address.
  package var sourceLoss: SourceLoss?
  /// Whether the flow's address is not on the link that the flow was made on. The flow may use
  /// another link.
  package var isSourceElsewhere: Bool
  /// The link with the flow's address, if another link sends the flow's packets. `nil` if the path
  /// uses that link, or if it is the loopback link.
  package var otherSourceLink: SourceLink?
  /// Whether an IPsec VPN has assigned the flow's address. The VPN moves the address with its
  /// tunnel, even to another link (RFC 4555).
  package var isSourceAssignedByVPN: Bool
  /// Whether the remote address belongs to this machine.
  package var isLocal: Bool
  /// Whether the kernel drops replies to the flow because strict reverse path filtering expects
  /// them on another link.
  package var areRepliesRefused = false
  /// The state of the link that the flow was made on, or `nil` if its path still uses that link.
  package var formerLink: FormerLink?
  /// The path that new connections to the same destination get, or `nil` if it is the flow's own
  /// path and subnet.
  package var alternative: Alternative?
  package var guesses: Guesses

  /// Whether this machine has lost the flow's own address.
  package var isSourceGone: Bool { self.sourceLoss != nil }

  /// Whether the flow sends from the address of another link. Replies may arrive by that link, and
  /// the flow's socket may send by the path on which it was connected (E2).
  package var isSourceForeign: Bool {
    self.otherSourceLink != nil && !self.isSourceAssignedByVPN && !self.isLocal
      && self.path.status == .satisfied
  }

  /// Whether only the flow's socket can show that the flow works, because the flow sends from the
  /// address of a failed link (I2). Replies arrive only if both links are on the same network.
  package var isSourceStranded: Bool { self.isSourceForeign && self.otherSourceLink == .failed }

  /// The state of a link that has the flow's address.
  package enum SourceLink: Hashable, Sendable {
    case working
    /// The link carries no traffic.
    case failed
  }

  /// Whether a lost address may come back.
  package enum SourceLoss: Hashable, Sendable {
    /// The address's link still works, so a network manager may be taking over the address.
    case mayReturn
    /// The address's link is gone or carries no traffic, or new connections get another address of
    /// the same subnet on it.
    case final
  }

  /// Which parts of the path's cost are guessed.
  package struct Guesses: Hashable, Sendable {
    package var isExpensive: Bool
    package var isConstrained: Bool

    package init(isExpensive: Bool = false, isConstrained: Bool = false) {
      self.isExpensive = isExpensive
      self.isConstrained = isConstrained
    }
  }

  /// The state of a link that a flow's path no longer uses.
  package enum FormerLink: Hashable, Sendable {
    /// The link is gone or carries no traffic.
    case failed
    /// The link carries traffic, but no route to the flow's destination uses it.
    case withoutRoute
    /// The link carries traffic, but the route over it has just been removed. Another route over
    /// the link exists, but is not preferred.
    case withWorseRoute
    /// The link carries traffic and its route exists, but another route is preferred.
    case withRoute
    /// The flow does not depend on the link: its address works for the current path, or the route
    /// has several nexthops.
    case untied
    /// The link is one of several nexthops of the flow's route, and has the flow's address. The
    /// connection may still use this link.
    case leg
  }

  /// A path that the kernel prefers for new connections.
  package struct Alternative: Hashable, Sendable {
    /// The index of the out-link.
    package var link: UInt32?
    package var source: IPAddress?
    /// Whether a rule or a separate route keeps the flow on its path.
    package var isKept: Bool

    package init(link: UInt32?, source: IPAddress?, isKept: Bool) {
      self.link = link
      self.source = source
      self.isKept = isKept
    }
  }

  package init(
    _ path: KernelPath, network: NetworkIdentity = NetworkIdentity(), sourceLoss: SourceLoss? = nil,
    isSourceElsewhere: Bool = false, isSourceAssignedByVPN: Bool = false, isLocal: Bool = false,
    formerLink: FormerLink? = nil,
    alternative: Alternative? = nil,
    guesses: Guesses = Guesses()
  ) {
    self.path = path
    self.network = network
    self.sourceLoss = sourceLoss
    self.isSourceElsewhere = isSourceElsewhere
    self.isSourceAssignedByVPN = isSourceAssignedByVPN
    self.isLocal = isLocal
    self.formerLink = formerLink
    self.alternative = alternative
    self.guesses = guesses
  }

  /// The reading while the kernel is unavailable (K8).
  package static let unknown = FlowReading(.unknown)
}
