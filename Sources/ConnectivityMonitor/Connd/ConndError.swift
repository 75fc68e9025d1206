private import ConnectivityProtobuf
private import ConnectivityProtocol
private import GRPCCore

/// The reason why connd did not answer.
@nonexhaustive public enum ConndError: Error, Hashable, Sendable {
  /// No process listens on the socket, or the process went away.
  case notThere(String)
  /// This user may not connect, or may not make this request.
  case refused(String)
  /// connd is running but has reached a limit, which the text names.
  case turnedAway(String)
  /// connd rejects the request because a field is invalid.
  case invalid(String)
  /// Any other error, with its original text.
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
  /// Converts the error of a call or a message for the caller. Returns other errors unchanged.
  ///
  /// A cancelled call ends with `CancellationError`. gRPC reports a cancellation in three different
  /// ways, depending on the state of the call.
  package static func reading(_ error: any Error) -> any Error {
    if Task.isCancelled { return CancellationError() }
    if error is ProtobufError || error is ConversionError {
      return ConndError.failed("connd's message is malformed: \(error)")
    }
    guard let error = error as? RPCError else { return error }
    if error.cause is CancellationError { return CancellationError() }
    switch error.code {
    case .unavailable: return ConndError.notThere(error.message)
    // This side did not cancel the call, so the server is stopping.
    case .cancelled: return ConndError.notThere(error.message)
    case .resourceExhausted: return ConndError.turnedAway(error.message)
    case .deadlineExceeded: return ConndError.failed("it is running but does not respond")
    case .permissionDenied, .unauthenticated: return ConndError.refused(error.message)
    case .invalidArgument: return ConndError.invalid(error.message)
    default: return ConndError.failed("\(error.code): \(error.message)")
    }
  }
}
