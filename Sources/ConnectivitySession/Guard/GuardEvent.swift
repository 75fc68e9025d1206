public import Connectivity
package import ConnectivityProtocol

/// An event of a ``FlowGuard``.
package enum GuardEvent: Hashable, Sendable {
  /// An event of a flow, and the generation of the last change published before it.
  case flow(id: UInt64, generation: UInt64, FlowEvent)
  /// No connd guards the flows, so their fate is unknown. The guard keeps looking for one.
  case absent(ConndAbsence)
  /// connd is back, and all flows are registered again.
  case resumed
}

/// Why no connd guards a process's flows.
package enum ConndAbsence: Hashable, Sendable, CustomStringConvertible {
  /// connd is not running, refuses this user, or went away.
  case disconnected(ConndError)
  /// connd is running, but in another network namespace than this process. Reported once for each
  /// connection to connd.
  case elsewhere(ForeignNamespace)

  package var description: String {
    switch self {
    case .disconnected(let error): error.description
    case .elsewhere(let foreign): foreign.description
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

  package var description: String {
    "connd is in the network namespace \(self.connd), and this process is in \(self.own)"
  }
}

/// An event of a flow.
package enum FlowEvent: Hashable, Sendable {
  /// The flow's path: after it was added, and after each change.
  case path(Path)
  /// The reported better path is gone. New connections use the flow's own path again, which is this
  /// one.
  case betterPathGone(Path)
  /// The flow is no longer viable. With severity `destroy` it is no longer guarded.
  case invalidation(FlowInvalidation)
  /// connd does not guard the flow, for this reason. Other flows are unaffected.
  case refused(String)
}

/// The announcement that one flow is no longer viable. It is the cause of the `RPCError` of its
/// calls.
public struct FlowInvalidation: Error, Hashable, Sendable {
  public var reason: Invalidation.Reason
  public var severity: Invalidation.Severity
  public var cause: Cause
  /// The current path to the remote address, or `nil` if connd did not report it.
  public var path: Path?
  /// The answer of the connection's own socket, or `nil` if it was not asked.
  public var socket: SocketTestimony?
  /// For ``Connectivity/Invalidation/Reason/policy``: the property that the channel forbids.
  /// Otherwise `nil`.
  public var networkUnavailableReason: NetworkUnavailable.Reason?

  public init(
    reason: Invalidation.Reason, severity: Invalidation.Severity, cause: Cause, path: Path?,
    socket: SocketTestimony? = nil, networkUnavailableReason: NetworkUnavailable.Reason? = nil
  ) {
    self.reason = reason
    self.severity = severity
    self.cause = cause
    self.path = path
    self.socket = socket
    self.networkUnavailableReason = networkUnavailableReason
  }
}

extension FlowInvalidation {
  /// - Throws: ``ConversionError`` if an address is invalid.
  package init(_ message: Connectivity_V1_FlowInvalidation) throws(ConversionError) {
    self.init(
      reason: Invalidation.Reason(message.reason),
      severity: Invalidation.Severity(message.severity),
      cause: Cause(message.cause),
      path: message.hasPath ? try Path(message.path) : nil,
      socket: message.hasSocket ? SocketTestimony(message.socket) : nil)
  }
}

extension FlowEvent {
  /// The flow's path, if the event contains it.
  package var ownPath: Path? {
    switch self {
    case .path(let path), .betterPathGone(let path): path
    case .invalidation, .refused: nil
    }
  }

  /// Parses a message. Returns `nil` for an unknown event from a newer connd.
  ///
  /// - Throws: ``ConversionError`` if an address is invalid.
  package init?(_ message: Connectivity_V1_GuardResponse) throws(ConversionError) {
    switch message.event {
    case .path(let path):
      let path = try Path(path)
      self = message.betterPathGone ? .betterPathGone(path) : .path(path)
    case .invalidation(let invalidation): self = .invalidation(try FlowInvalidation(invalidation))
    case .refused(let refused): self = .refused(refused.message)
    case nil: return nil
    }
  }
}
