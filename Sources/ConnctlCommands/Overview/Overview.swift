import Connectivity
import ConnectivityProtocol
import ConnectivitySession

/// All that `connctl top` shows, at one moment.
struct Overview: Hashable, Sendable {
  var snapshot: Snapshot
  var links: [Connectivity_V1_Link] = []
  /// The oldest first.
  private(set) var changes: [Change] = []
  var rates = Rates()
  /// `nil` where this connd does not tell who follows it.
  var clients: [Connectivity_V1_Client]?
  /// What the processes of clients are called, by their numbers.
  var processNames: [UInt32: String] = [:]
  /// Why what is shown may not be so any more.
  private(set) var remark: String?
  /// connd speaks of another network namespace than this process is in: what the kernel counts here is of other links.
  var isElsewhere = false

  init(_ snapshot: Snapshot) { self.snapshot = snapshot }

  /// connd told something.
  mutating func take(_ event: StatusEvent) {
    switch event {
    case .snapshot(let snapshot), .gap(let snapshot): self.snapshot = snapshot
    case .change(let change):
      self.snapshot.apply(change)
      self.note([change])
    case .disconnected(let error):
      self.remark = "connd went away (\(error)); looking for it"
    case .resumed: self.remark = nil
    }
  }

  /// connd tells the same state of affairs again: after the wall clock was set, `since` is another.
  mutating func correct(_ snapshot: Snapshot) {
    if snapshot.generation == self.snapshot.generation { self.snapshot.since = snapshot.since }
  }

  /// More than fit on a screen.
  private static let mostChanges = 64

  /// Something happened, or is known to have happened.
  mutating func note(_ changes: [Change]) {
    let known = Set(self.changes.map(\.generation))
    self.changes += changes.filter { !known.contains($0.generation) }
    self.changes.sort { $0.generation < $1.generation }
    self.changes.removeFirst(max(0, self.changes.count - Self.mostChanges))
  }
}
