package import Connectivity

/// Implements rule C8.
extension GuardMachine {
  /// Whether a connection may be made, according to connd's answer.
  package enum Admission: Sendable {
    case granted
    /// The connection's owner may not use the path.
    case forbidden(NetworkUnavailableError)
    /// No call that waits for the connection may use the path.
    case unwanted
    /// connd would immediately end the connection.
    case invalid(InvalidationError)
  }
}

extension GuardMachine.Answer {
  /// Returns whether the connection may be made. Even a running connd may not know the path (K8).
  ///
  /// - Parameter isWanted: Whether a call may use the path.
  package func admission(
    for access: NetworkAccess, isWanted: (KernelPath) -> Bool = { _ in true }
  ) -> GuardMachine.Admission {
    let path = self.path ?? .unknown
    if let refusal = access.refusal(of: path) { return .forbidden(refusal) }
    if !isWanted(path) { return .unwanted }
    if case .invalidation(let invalidation) = self { return .invalid(invalidation) }
    return .granted
  }
}
