public import Connectivity

/// An event of connd's stream.
@nonexhaustive public enum StatusEvent: Hashable, Sendable {
  /// The state at the start.
  case snapshot(ConnectivitySnapshot)
  /// A complete published change. It includes the resulting status, unless that is unchanged.
  case change(ConnectivityChange)
  /// An unknown number of changes was missed. Contains the current state.
  case gap(ConnectivitySnapshot)
  /// connd is not running, is in another network namespace, refuses this user, or went away. The
  /// stream continues as soon as connd can be used.
  case disconnected(ConndError)
  /// connd is back. Contains the last generation received, after which changes continue, or `nil`
  /// before the first.
  case resumed(after: UInt64?)
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
