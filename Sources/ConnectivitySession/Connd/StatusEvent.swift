public import Connectivity

/// What a stream of connd's news tells.
@nonexhaustive public enum StatusEvent: Hashable, Sendable {
  /// The state of affairs at the start.
  case snapshot(Snapshot)
  /// What was published, complete in itself: the status after it is part of it, unless it leaves that as it is.
  case change(Change)
  /// Something was missed: what, is not known. Here is the present.
  case gap(Snapshot)
  /// connd is not there, refuses this user or went away. The stream looks for it until it finds it.
  case disconnected(ConndError)
  /// connd is there again. Changes go on after this generation, the last one seen; `nil` where none was.
  case resumed(UInt64?)
}

extension StatusEvent {
  /// A kind of change.
  @nonexhaustive public enum Kind: Hashable, Sendable, CaseIterable {
    case transition
    case path
    case invalidation
    case dns
  }
}
