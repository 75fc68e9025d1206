/// Something that was published: what a subscriber is told.
@nonexhaustive public enum Change: Hashable, Sendable {
  case transition(Transition)
  case path(PathChange)
  case invalidation(Invalidation)
  case dns(DNSChange)

  /// Larger than that of every change before it.
  public var generation: UInt64 {
    switch self {
    case .transition(let transition): transition.snapshot.generation
    case .path(let change): change.snapshot.generation
    case .invalidation(let invalidation): invalidation.generation
    case .dns(let change): change.generation
    }
  }

  /// The same change, with all its times so much later: the wall clock was set.
  package func shifted(by step: Duration) -> Change {
    switch self {
    case .transition(var transition):
      transition.time = transition.time.advanced(by: step)
      transition.snapshot.since = transition.snapshot.since.advanced(by: step)
      return .transition(transition)
    case .path(var change):
      change.time = change.time.advanced(by: step)
      change.snapshot.since = change.snapshot.since.advanced(by: step)
      return .path(change)
    case .invalidation(var invalidation):
      invalidation.time = invalidation.time.advanced(by: step)
      return .invalidation(invalidation)
    case .dns(var change):
      change.time = change.time.advanced(by: step)
      return .dns(change)
    }
  }

  /// When it was published.
  package var time: Timestamp {
    switch self {
    case .transition(let transition): transition.time
    case .path(let change): change.time
    case .invalidation(let invalidation): invalidation.time
    case .dns(let change): change.time
    }
  }

  /// The state of affairs after the change; `nil` for an invalidation, which leaves it as it is, and for what changes nothing but
  /// whom names are asked of.
  public var snapshot: Snapshot? {
    switch self {
    case .transition(let transition): transition.snapshot
    case .path(let change): change.snapshot
    case .invalidation, .dns: nil
    }
  }
}

/// The category changed, or the path bounced: it went and came back.
public struct Transition: Hashable, Sendable {
  public var from: Category
  public var to: Category
  /// The path went in between, even if `from` equals `to` (T2).
  public var bounced: Bool
  public var cause: Cause
  /// When it was published.
  public var time: Timestamp
  public var snapshot: Snapshot

  public init(
    from: Category, to: Category, bounced: Bool, cause: Cause, time: Timestamp, snapshot: Snapshot
  ) {
    self.from = from
    self.to = to
    self.bounced = bounced
    self.cause = cause
    self.time = time
    self.snapshot = snapshot
  }
}

/// Something of the paths changed, and the category did not.
public struct PathChange: Hashable, Sendable {
  public var cause: Cause
  /// When it was published.
  public var time: Timestamp
  public var snapshot: Snapshot

  public init(cause: Cause, time: Timestamp, snapshot: Snapshot) {
    self.cause = cause
    self.time = time
    self.snapshot = snapshot
  }
}

/// What made connd look again, and what it found there (T5).
public struct Cause: Hashable, Sendable {
  /// Where the occasion came from.
  @nonexhaustive public enum Trigger: String, Hashable, Sendable, CaseIterable {
    case link
    case address
    case route
    case rule
    case nexthop
    /// connd started.
    case start
    /// Messages were lost and everything was read again.
    case overrun
    /// The configuration was read again.
    case configuration
    /// A gain that was held back is published.
    case timer
    /// The kernel could not be asked, or can be asked again.
    case kernel
    /// The gateway has another hardware address.
    case neighbour
    /// The machine slept and woke.
    case sleep
    /// A client registered a flow that had died before.
    case registration
    /// A file says that names are asked of others.
    case dns
    /// A user has said what a link or a network costs, or that is over.
    case user
    /// ModemManager says something else of a link.
    case modem
    /// NetworkManager or a DHCP server says something else of what a link costs.
    case metering
  }

  public var trigger: Trigger
  /// What changed, in one word: `carrierLost`, `routeRemoved`.
  public var change: String
  /// The kernel's message: `RTM_NEWLINK`; or who it was: `uid 1000`.
  public var message: String?
  /// The link that the message was about.
  public var interface: String?
  /// When it happened is not known: messages were lost, or connd was away (I7).
  public var learntLate: Bool

  public init(
    _ trigger: Trigger, _ change: String, message: String? = nil, interface: String? = nil,
    learntLate: Bool = false
  ) {
    self.trigger = trigger
    self.change = change
    self.message = message
    self.interface = interface
    self.learntLate = learntLate
  }
}
