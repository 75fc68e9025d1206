internal import Connectivity

/// An event of a followed path.
enum PathEvent: Hashable, Sendable {
  /// The path. `interrupted` means that the path was lost before, even if it equals the previous
  /// one.
  case path(NetworkPath, interrupted: Bool)
  /// connd is not running, or went away.
  case lost
  /// connd is back, and its last report still applies.
  case found
}

/// Reads the system's connectivity from the stream of changes.
struct StatusReader: Sendable {
  /// The last reported status.
  private var last: ConnectivitySnapshot?
  /// Whether nothing was reported since connd came back.
  private var isResuming = false

  /// - Returns: The path event, or `nil` if the event does not concern the path.
  mutating func read(_ event: StatusEvent) -> PathEvent? {
    switch event {
    case .snapshot(let snapshot):
      return self.path(snapshot, interrupted: false)
    case .change(.transition(let transition)):
      return self.path(transition.snapshot, interrupted: transition.bounced)
    case .change(.path(let change)):
      return self.path(change.snapshot, interrupted: false)
    case .change(.dns(let change)):
      guard var snapshot = self.last else { return nil }
      snapshot.dns = change.settings
      return self.path(snapshot, interrupted: false)
    case .change(.invalidation):
      return nil
    case .gap(let snapshot):
      return self.path(snapshot, interrupted: self.hidesTransition(snapshot))
    case .disconnected:
      return .lost
    case .resumed:
      self.isResuming = true
      return .found
    }
  }

  private mutating func path(_ snapshot: ConnectivitySnapshot, interrupted: Bool) -> PathEvent {
    self.last = snapshot
    self.isResuming = false
    return .path(NetworkPath(snapshot.status, dns: snapshot.dns), interrupted: interrupted)
  }

  /// Whether the category changed and changed back, or the path bounced, in the missed changes.
  ///
  /// After a restart, connd may report a new time for the category. A restart alone is not a
  /// transition (I7).
  private func hidesTransition(_ snapshot: ConnectivitySnapshot) -> Bool {
    guard let last = self.last, !self.isResuming else { return false }
    return last.since != snapshot.since && last.status.category == snapshot.status.category
  }
}
