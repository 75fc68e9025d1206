import Connectivity
import ConnectivityMonitor
import ConnectivityProtocol

/// The content of `connctl top` at one moment.
struct Overview: Equatable, Sendable {
  var snapshot: ConnectivitySnapshot
  var links: [Connectivity_V1_Link] = []
  /// The changes, oldest first.
  private(set) var changes: [ConnectivityChange] = []
  var rates = Rates()
  /// `nil` if this connd does not report its clients.
  var clients: [Connectivity_V1_Client]?
  /// The names of the clients' processes, by process number.
  var processNames: [UInt32: String] = [:]
  /// The names of the clients' users, by user number.
  var userNames: [UInt32: String] = [:]
  /// Why the content may be out of date.
  private(set) var remark: String?
  /// Whether connd is in another network namespace, so that the kernel's counters here are for
  /// other links.
  var isElsewhere = false

  init(_ snapshot: ConnectivitySnapshot) { self.snapshot = snapshot }

  /// Handles an event of connd.
  mutating func take(_ event: StatusEvent) {
    switch event {
    case .snapshot(let snapshot), .gap(let snapshot): self.snapshot = snapshot
    case .change(let change):
      self.snapshot.apply(change)
      self.note([change])
    case .disconnected(let error):
      self.remark = ConndMessage.absent(error)
    case .resumed: self.remark = nil
    }
  }

  /// Updates `since` if the generation is the same. connd shifts that time if the wall clock is set
  /// (T4).
  mutating func correct(_ snapshot: ConnectivitySnapshot) {
    if snapshot.generation == self.snapshot.generation { self.snapshot.since = snapshot.since }
  }

  /// The maximum number of changes, which is more than fit on a screen.
  private static let maxChanges = 64

  /// Adds the changes that are not known yet.
  mutating func note(_ changes: [ConnectivityChange]) {
    let known = Set(self.changes.map(\.generation))
    self.changes += changes.filter { !known.contains($0.generation) }
    self.changes.sort { $0.generation < $1.generation }
    self.changes.removeFirst(max(0, self.changes.count - Self.maxChanges))
  }
}
