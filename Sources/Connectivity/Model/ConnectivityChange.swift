/// A published change, as subscribers receive it. Indirect, because changes are copied often.
@nonexhaustive public indirect enum ConnectivityChange: Hashable, Sendable {
  case transition(ConnectivityChange.Transition)
  case path(ConnectivityChange.PathChange)
  case invalidation(Invalidation)
  case dns(ConnectivityChange.DNSChange)

  /// The generation, larger than those of all earlier changes.
  public var generation: UInt64 {
    switch self {
    case .transition(let transition): transition.snapshot.generation
    case .path(let change): change.snapshot.generation
    case .invalidation(let invalidation): invalidation.generation
    case .dns(let change): change.generation
    }
  }

  /// Returns the change with all its times shifted, because the wall clock was set.
  package func shifted(by step: Duration) -> ConnectivityChange {
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

  /// The time of publication.
  package var time: WallTime {
    switch self {
    case .transition(let transition): transition.time
    case .path(let change): change.time
    case .invalidation(let invalidation): invalidation.time
    case .dns(let change): change.time
    }
  }

  /// The state after the change. `nil` for an invalidation, which leaves the state unchanged, and
  /// for a DNS change.
  public var snapshot: ConnectivitySnapshot? {
    switch self {
    case .transition(let transition): transition.snapshot
    case .path(let change): change.snapshot
    case .invalidation, .dns: nil
    }
  }
}

extension ConnectivityChange {
  /// A change of the category, or a bounce: the path went away and came back.
  public struct Transition: Hashable, Sendable {
    public var from: NetworkCategory
    public var to: NetworkCategory
    /// Whether the path was lost in between, even if `from` equals `to` (T2).
    public var bounced: Bool
    public var cause: ChangeCause
    /// The time of publication.
    public var time: WallTime
    public var snapshot: ConnectivitySnapshot

    package init(
      from: NetworkCategory, to: NetworkCategory, bounced: Bool, cause: ChangeCause, time: WallTime,
      snapshot: ConnectivitySnapshot
    ) {
      self.from = from
      self.to = to
      self.bounced = bounced
      self.cause = cause
      self.time = time
      self.snapshot = snapshot
    }
  }

  /// A change of a path, or of connd's knowledge about it. The latter may change the category
  /// although the network is the same.
  public struct PathChange: Hashable, Sendable {
    public var cause: ChangeCause
    /// The time of publication.
    public var time: WallTime
    public var snapshot: ConnectivitySnapshot

    package init(cause: ChangeCause, time: WallTime, snapshot: ConnectivitySnapshot) {
      self.cause = cause
      self.time = time
      self.snapshot = snapshot
    }
  }
}

/// The reason for a change: the event that made connd read its sources again, and the result (T5).
public struct ChangeCause: Hashable, Sendable {
  /// The origin of the trigger.
  @nonexhaustive public enum Trigger: String, Hashable, Sendable, CaseIterable {
    case link
    case address
    case route
    case rule
    case nexthop
    /// connd started.
    case start
    /// Kernel messages were lost, so connd read everything again.
    case overrun
    /// The configuration was reloaded.
    case configuration
    /// A grace period (I10) or the lifetime of a route (D9) has ended.
    case timer
    /// The kernel cannot be queried, or can be queried again.
    case kernel
    /// The MAC address, the reachability or the bridge port of a gateway changed.
    case neighbour
    /// The machine slept and resumed.
    case sleep
    /// A client registered a flow that had already died.
    case registration
    /// The files that configure DNS changed.
    case dns
    /// A user set an override for a link or a network, or an override ended.
    case user
    /// ModemManager's report about a link changed.
    case modem
    /// NetworkManager or a DHCP server changed its report on whether a link is metered.
    case metering
    /// NetworkManager, a router or systemd-networkd changed its report on whether a link leads to
    /// the internet.
    case validation
    /// The quality of a link changed.
    case quality
  }

  public var trigger: Trigger
  /// The change in one word: `carrierLost`, `routeRemoved`.
  public var change: String
  /// The kernel's message (`RTM_NEWLINK`) or the user (`uid 1000`).
  public var message: String?
  /// The link that the message was about.
  public var interface: String?
  /// Whether the time is unknown, because messages were lost or connd was away (I7).
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
