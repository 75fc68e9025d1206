package import Connectivity
private import ConnectivityProtobuf
private import ConnectivityProtocol
private import GRPCCore

/// The reason why connd does not answer, or does not guard a connection: a code for programs, and a
/// description for people.
public struct ConndError: Error, Hashable, Sendable {
  @nonexhaustive public enum Code: String, Hashable, Sendable, CaseIterable {
    /// No process listens on the socket, or the process has exited.
    case notAvailable
    /// This user may not connect, or may not make this request.
    case refused
    /// connd is running but has reached a limit, which the description names.
    case limitReached
    /// connd rejects the request because a field is invalid.
    case invalidRequest
    /// connd runs in another network namespace than this process, and reports another network.
    case otherNamespace
    /// connd wrongly rejected new connections, so this process guards none for a while (I11).
    case breakerOpen
    /// The socket needs no guard, or cannot have one.
    case notGuardable
    /// Any other error.
    case failed
  }

  public var code: Code
  /// The reason for people. The text may change with each version.
  public var description: String

  public init(_ code: Code, _ description: String) {
    self.code = code
    self.description = description
  }
}

extension ConndError: CustomStringConvertible {}

extension ConndError {
  package static func notAvailable(_ why: String) -> Self { Self(.notAvailable, why) }
  package static func refused(_ why: String) -> Self { Self(.refused, why) }
  package static func limitReached(_ why: String) -> Self { Self(.limitReached, why) }
  package static func invalidRequest(_ why: String) -> Self { Self(.invalidRequest, why) }
  package static func failed(_ why: String) -> Self { Self(.failed, why) }

  package init(_ refusal: FlowRefusal) {
    switch refusal.code {
    case .invalidArgument: self = .invalidRequest(refusal.message)
    case .resourceExhausted: self = .limitReached(refusal.message)
    }
  }

  /// Whether trying again does not help: connd refuses this user or the request.
  package var isFinal: Bool { self.code == .refused || self.code == .invalidRequest }

  /// Converts the error of a call or a message for the caller. Returns other errors unchanged.
  ///
  /// A cancelled call ends with `CancellationError`. gRPC reports a cancellation in three different
  /// ways, depending on the state of the call.
  package static func reading(_ error: any Error) -> any Error {
    if Task.isCancelled { return CancellationError() }
    if error is ProtobufError || error is ConversionError {
      return ConndError.failed("connd's message is malformed: \(error)")
    }
    if let error = error as? RuntimeError, error.code == .clientIsStopped {
      return ConndError.notAvailable("the connection has ended")
    }
    guard let error = error as? RPCError else { return error }
    if error.cause is CancellationError { return CancellationError() }
    switch error.code {
    case .unavailable: return ConndError.notAvailable(error.message)
    // This side did not cancel the call, so the server is stopping.
    case .cancelled: return ConndError.notAvailable(error.message)
    case .resourceExhausted: return ConndError.limitReached(error.message)
    case .deadlineExceeded: return ConndError.failed("it is running but does not respond")
    case .permissionDenied, .unauthenticated: return ConndError.refused(error.message)
    case .invalidArgument: return ConndError.invalidRequest(error.message)
    default: return ConndError.failed("\(error.code): \(error.message)")
    }
  }
}
