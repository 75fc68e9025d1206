public import Connectivity
package import ConnectivityProtocol

/// What a ``FlowGuard`` tells.
package enum GuardEvent: Hashable, Sendable {
  /// What became of a flow, and the generation of the last change that was published when connd said so.
  case flow(id: UInt64, generation: UInt64, FlowEvent)
  /// connd is not there, refuses this user or went away. The guard looks for it until it finds it.
  case disconnected(ConndError)
  /// connd is there again, and is told of all flows anew.
  case resumed
  /// connd is there, and speaks of another network than this process is on: it is as if it were not there. Once for each
  /// connection to connd.
  case elsewhere(ForeignNamespace)
}

/// connd and this process are in different network namespaces, as with a container that has connd's socket mounted.
package struct ForeignNamespace: Error, Hashable, CustomStringConvertible {
  /// The inode of connd's.
  package var connd: UInt64
  /// The inode of this process's.
  package var own: UInt64

  package init(connd: UInt64, own: UInt64) {
    self.connd = connd
    self.own = own
  }

  package var description: String {
    "connd speaks of the network namespace \(self.connd), and this process is in \(self.own)"
  }
}

/// What became of a flow.
package enum FlowEvent: Hashable, Sendable {
  /// The flow's path: when it was added, and each time it has changed.
  case path(Path)
  /// The better path that was told of is gone: what new connections get is the flow's own way again, which is this.
  case betterPathGone(Path)
  /// The flow is no longer viable. It is guarded no longer where the severity is `destroy`.
  case invalidation(FlowInvalidation)
  /// connd does not guard it, and says why. The other flows are as they were.
  case refused(String)
}

/// The statement that one flow is no longer viable; the cause of the `RPCError` with which its calls end.
public struct FlowInvalidation: Error, Hashable, Sendable {
  public var reason: Invalidation.Reason
  public var severity: Invalidation.Severity
  public var cause: Cause
  /// What the way to the remote address is now; `nil` where connd did not say.
  public var path: Path?
  /// What the connection's own socket said, or `nil` if it was not asked.
  public var socket: SocketTestimony?
  /// For ``Connectivity/Invalidation/Reason/policy``: what the channel does not allow; else `nil`.
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
  /// - Throws: ``ConversionError`` where an address is none.
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
  /// The flow's path, where this tells it.
  package var ownPath: Path? {
    switch self {
    case .path(let path), .betterPathGone(let path): path
    case .invalidation, .refused: nil
    }
  }

  /// Reads a message; `nil` for an event that this version does not know, from a newer connd.
  ///
  /// - Throws: ``ConversionError`` where an address is none.
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
