private import GRPCCore

/// Why connd did not answer.
@nonexhaustive public enum ConndError: Error, Hashable, Sendable {
  /// Nobody listens on the socket, or who listened went away.
  case notThere(String)
  /// This user may not connect, or may not ask this.
  case refused(String)
  /// connd is there and takes no more: one of its limits is reached, which it names.
  case turnedAway(String)
  /// connd does not accept the request: a field has a value that makes no sense.
  case invalid(String)
  /// Anything else, in the words of who noticed.
  case failed(String)
}

extension ConndError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .notThere(let why), .refused(let why), .turnedAway(let why), .invalid(let why),
      .failed(let why):
      why
    }
  }
}

extension ConndError {
  /// What an error of gRPC means for the caller; errors of other kinds come back as they are.
  ///
  /// A cancelled call ends with `CancellationError`: gRPC says so in three different ways, depending on how far
  /// the call had come.
  ///
  package static func reading(_ error: any Error) -> any Error {
    if Task.isCancelled { return CancellationError() }
    guard let error = error as? RPCError else { return error }
    if error.cause is CancellationError { return CancellationError() }
    switch error.code {
    case .unavailable: return ConndError.notThere(error.message)
    // Nobody here has cancelled it: who served it ends.
    case .cancelled: return ConndError.notThere(error.message)
    case .resourceExhausted: return ConndError.turnedAway(error.message)
    case .deadlineExceeded: return ConndError.failed("it is there, and silent")
    case .permissionDenied, .unauthenticated: return ConndError.refused(error.message)
    case .invalidArgument: return ConndError.invalid(error.message)
    default: return ConndError.failed("\(error.code): \(error.message)")
    }
  }
}
