import Connectivity
import ConnectivityRules
import UnixTransport

/// A guarded flow and the state of its evaluation. It is an object because it is large, and most
/// evaluations change nothing.
final class GuardedFlow {
  let key: FlowTable.Key
  let account: Account
  var tracker: FlowTracker
  /// The queries to its socket and their results.
  var examination: FlowExamination
  /// The cause of the pending query to its socket.
  var examinedCause: ChangeCause?
  /// The lookup that its socket has refuted.
  var refutedPath: KernelPath?
  /// When its grace period began, or its address was lost during it; `nil` without one.
  var inDoubtSince: Instant?
  /// The path that the client received last.
  var told: KernelPath {
    didSet { if self.told.isOther(than: oldValue) { self.hasMoved = true } }
  }
  /// Whether its path has changed since it was asked after a change.
  var hasMoved = false
  /// The number of the last step that it was evaluated for.
  var seen: UInt64
  /// Whether its address is on a failed link while another link sends its packets (E5).
  var isStranded = false
  /// Whether its grace period is over.
  var isOverdue = false
  /// Whether it had no path when it was made, and has had none since (I11).
  var isDoubted: Bool
  /// Its index in the table.
  var place: Int

  init(
    _ key: FlowTable.Key, of account: Account, _ tracker: FlowTracker,
    _ examination: FlowExamination, told: KernelPath, isDoubted: Bool, seen: UInt64, place: Int
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

  /// The addresses whose routes matter: the remote one and its own, which a route alone may make
  /// local (AnyIP).
  var addresses: [IPAddress] {
    [self.tracker.flow.destination.address] + (self.tracker.flow.local.map { [$0] } ?? [])
  }

  /// When it must be evaluated even without a kernel message.
  var deadline: Instant? {
    switch (self.tracker.deadline, self.examination.deadline) {
    case (let first?, let second?): min(first, second)
    case (let deadline, nil), (nil, let deadline): deadline
    }
  }

  /// Whether its lookup shows a working path, or its socket has proved one.
  var isSound: Bool {
    if self.examination.disputed != nil { return self.examination.isSpared }
    return self.tracker.hasBegun && !self.tracker.isInDoubt
  }
}

extension KernelPath {
  /// Whether packets take another way.
  fileprivate func isOther(than other: KernelPath) -> Bool {
    self.status != other.status || self.chain != other.chain || self.gateway != other.gateway
      || self.table != other.table || self.source != other.source
  }
}
