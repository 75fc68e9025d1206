import Connectivity
import ConnectivityRules
import UnixTransport

/// A flow that is guarded, and what it is judged by: an object, because it is large, and a look mostly changes nothing of it.
final class GuardedFlow {
  let key: FlowTable.Key
  let account: Account
  var tracker: FlowTracker
  /// What its socket is asked, and what came of it.
  var examination: FlowExamination
  /// What led to the open question to its socket.
  var examinedCause: Cause?
  /// The lookup that its socket has refuted.
  var refutedPath: Path?
  /// Since when its grace period runs, or `nil` if none does.
  var inDoubtSince: Instant?
  /// The path that the client knows of.
  var told: Path
  /// The number of the last step that it was looked at for.
  var seen: UInt64
  /// Its grace is over.
  var isOverdue = false
  /// There was no path for it when it had just been made, and there has been none since (I11).
  var isDoubted: Bool
  /// It was to be destroyed while messages waited that may explain what was read.
  var isPostponed = false
  /// Where it is among all.
  var place: Int

  init(
    _ key: FlowTable.Key, of account: Account, _ tracker: FlowTracker,
    _ examination: FlowExamination, told: Path, isDoubted: Bool, seen: UInt64, place: Int
  ) {
    self.key = key
    self.account = account
    self.tracker = tracker
    self.examination = examination
    self.told = told
    self.isDoubted = isDoubted
    self.seen = seen
    self.place = place
  }

  /// The addresses whose routes matter: where it leads to, and its own, which may be local by a route alone (AnyIP).
  var addresses: [IPAddress] {
    [self.tracker.flow.destination.address] + (self.tracker.flow.local.map { [$0] } ?? [])
  }

  /// When it must be looked at again although the kernel says nothing.
  var deadline: Instant? {
    switch (self.tracker.deadline, self.examination.deadline) {
    case (let first?, let second?): min(first, second)
    case (let deadline, nil), (nil, let deadline): deadline
    }
  }

  /// Whether its lookup says that it goes on, or its socket has proved that.
  var isSound: Bool {
    if self.examination.disputed != nil { return self.examination.isSpared }
    return self.tracker.hasBegun && !self.tracker.isInDoubt
  }
}
