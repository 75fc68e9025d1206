package import Connectivity

/// An event of a ``FlowGuard``.
package enum GuardEvent: Hashable, Sendable {
  /// An event of a flow, and the generation of the last change published before it.
  case flow(id: UInt64, generation: UInt64, FlowEvent)
  /// The flow's owner must ask its peer (E4).
  case question(id: UInt64)
  /// connd does not guard the flows, so their state is unknown. The guard keeps trying to connect.
  case absent(ConndAbsence)
  /// connd is back, and all flows are registered again.
  case resumed
}

/// The reason why connd does not guard a process's flows.
package enum ConndAbsence: Hashable, Sendable, CustomStringConvertible {
  /// connd is not running, refuses this user, or went away.
  case disconnected(ConndError)
  /// connd is running, but in another network namespace than this process. Reported once for each
  /// connection to connd.
  case elsewhere(ForeignNamespace)

  package var description: String { self.error.description }

  package var error: ConndError {
    switch self {
    case .disconnected(let error): error
    case .elsewhere(let foreign): foreign.error
    }
  }
}

/// connd and this process are in different network namespaces, for example because a container has
/// connd's socket mounted.
package struct ForeignNamespace: Error, Hashable, CustomStringConvertible {
  /// The inode of connd's namespace.
  package var connd: UInt64
  /// The inode of this process's namespace.
  package var own: UInt64

  package init(connd: UInt64, own: UInt64) {
    self.connd = connd
    self.own = own
  }

  /// Returns `nil` if both namespaces are the same, or one of them is unknown.
  ///
  /// - Parameters:
  ///   - connd: The inode of connd's namespace, or 0 if unknown.
  ///   - own: The inode of this process's namespace, or `nil` if unknown.
  package init?(of connd: UInt64, own: UInt64? = ProcessNamespace.own) {
    guard let own, connd != 0, connd != own else { return nil }
    self.init(connd: connd, own: own)
  }

  package var error: ConndError { ConndError(.otherNamespace, self.description) }

  package var description: String {
    "connd watches the network namespace \(self.connd), and this process is in \(self.own)"
  }
}
