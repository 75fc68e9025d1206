import Connectivity
import ConnectivityRules

/// A flow that is guarded, and what it is judged by: an object, because it is large, and a look mostly changes nothing of it.
final class GuardedFlow {
  let key: FlowTable.Key
  var tracker: FlowTracker
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
    _ key: FlowTable.Key, _ tracker: FlowTracker, told: Path, isDoubted: Bool, seen: UInt64,
    place: Int
  ) {
    self.key = key
    self.tracker = tracker
    self.told = told
    self.isDoubted = isDoubted
    self.seen = seen
    self.place = place
  }

  /// The addresses whose routes matter: where it leads to, and its own, which may be local by a route alone (AnyIP).
  var addresses: [IPAddress] {
    [self.tracker.flow.destination.address] + (self.tracker.flow.local.map { [$0] } ?? [])
  }

  var uid: UInt32 { self.tracker.flow.destination.uid }
}
