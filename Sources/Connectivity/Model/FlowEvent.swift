/// An event of one guarded flow, as connd sends and clients receive it.
///
/// Indirect, because a refusal takes a tenth of the memory of a path, and any client can cause many
/// refusals.
package indirect enum FlowEvent: Hashable, Sendable {
  /// The flow's path, sent after the flow was added and after each change.
  case path(KernelPath)
  /// The reported better path is gone. New connections use the given path again, the flow's own
  /// path.
  case betterPathGone(KernelPath)
  /// The flow is no longer viable, or may not be. With severity `destroy` it is no longer guarded.
  case invalidation(InvalidationError)
  /// connd does not guard the flow. Other flows are unaffected.
  case refused(FlowRefusal)
}

extension FlowEvent {
  /// The flow's path, if the event contains it.
  package var ownPath: KernelPath? {
    switch self {
    case .path(let path), .betterPathGone(let path): path
    case .invalidation, .refused: nil
    }
  }

  /// The path to the remote address, or `nil` if the event has none.
  package var path: KernelPath? {
    switch self {
    case .path(let path), .betterPathGone(let path): path
    case .invalidation(let invalidation): invalidation.path
    case .refused: nil
    }
  }

  /// The invalidation, if the event is one.
  package var invalidation: InvalidationError? {
    if case .invalidation(let invalidation) = self { invalidation } else { nil }
  }

  /// Whether connd has declared the flow dead and stops guarding it.
  package var destroys: Bool { self.invalidation?.severity == .destroy }

  /// Whether the event declares a flow dead for a reason other than the cost of its network.
  package var refutes: Bool { self.destroys && self.invalidation?.reason != .policy }

  /// Whether the flow is no longer guarded after this event.
  package var isLast: Bool { if case .refused = self { true } else { self.destroys } }
}

/// The reason why connd does not guard a flow.
package struct FlowRefusal: Error, Hashable, Sendable {
  package enum Code: Hashable, Sendable, CaseIterable {
    /// A field is invalid.
    case invalidArgument
    /// A limit is reached.
    case resourceExhausted
  }

  package var code: Code
  package var message: String

  package init(code: Code, message: String) {
    self.code = code
    self.message = message
  }

  /// - Parameter message: Names the field.
  package static func invalid(_ message: String) -> Self {
    Self(code: .invalidArgument, message: message)
  }
  /// - Parameter message: Names the limit.
  package static func exhausted(_ message: String) -> Self {
    Self(code: .resourceExhausted, message: message)
  }
}

/// The announcement that one flow is no longer viable: the cause of the `RPCError` of its calls.
public struct InvalidationError: Error, Hashable, Sendable {
  public var reason: Invalidation.Reason
  public var severity: Invalidation.Severity
  public var cause: ChangeCause
  /// The current path to the remote address, or `nil` if connd did not report it.
  public var path: KernelPath?
  /// The evidence of the connection's own socket, or `nil` if the socket was not queried.
  public var socket: SocketTestimony?
  /// Whether to move the connection to ``path`` (I12).
  package var migrates = false
  /// The forbidden property, or `nil` if the reason is not ``Invalidation/Reason/policy``.
  public var networkUnavailableReason: NetworkUnavailableError.Reason?

  public init(
    reason: Invalidation.Reason, severity: Invalidation.Severity, cause: ChangeCause,
    path: KernelPath?,
    socket: SocketTestimony? = nil, networkUnavailableReason: NetworkUnavailableError.Reason? = nil
  ) {
    self.reason = reason
    self.severity = severity
    self.cause = cause
    self.path = path
    self.socket = socket
    self.networkUnavailableReason = networkUnavailableReason
  }

  /// Whether the connection may still work, because its link and address still exist.
  package var isSurvivable: Bool {
    switch self.reason {
    case .betterPath, .categoryChanged, .policy, .resumed, .silent: true
    case .sourceAddressLost, .interfaceLost, .networkChanged: false
    }
  }
}
