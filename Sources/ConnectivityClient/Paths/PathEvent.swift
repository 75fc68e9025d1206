internal import Connectivity
internal import ConnectivitySession

/// What happened to the path that somebody follows.
enum PathEvent: Hashable, Sendable {
  /// What it is now. `interrupted`: it went in between, whatever it looks like now.
  case path(NetworkPath, interrupted: Bool)
  /// connd is not there, or went away.
  case lost
  /// connd is back, and what it said last holds until it says something else.
  case found
}

/// Reads the system's connectivity out of the stream of changes.
struct StatusReader: Sendable {
  /// The last that was said.
  private var last: Snapshot?
  /// Nothing was said since connd was found again.
  private var isResuming = false

  /// - Returns: `nil` for what says nothing of the path.
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

  private mutating func path(_ snapshot: Snapshot, interrupted: Bool) -> PathEvent {
    self.last = snapshot
    self.isResuming = false
    return .path(NetworkPath(snapshot.status, dns: snapshot.dns), interrupted: interrupted)
  }

  /// Whether the category changed and changed back, or the path bounced, in what was missed.
  ///
  /// A connd that was restarted may count anew since when the category is what it is, and a restart alone means
  /// nothing (I7).
  private func hidesTransition(_ snapshot: Snapshot) -> Bool {
    guard let last = self.last, !self.isResuming else { return false }
    return last.since != snapshot.since && last.status.category == snapshot.status.category
  }
}
