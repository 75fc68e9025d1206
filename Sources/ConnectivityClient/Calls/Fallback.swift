internal import Connectivity
internal import ConnectivityMonitor
internal import GRPCCore
private import NIOPosix

/// Runs `operation`, and falls back to `fallback` if the network is forbidden for a given reason.
///
/// ```swift
/// let image = try await withFallback(on: [.constrained, .expensive]) {
///   try await images.get(large)
/// } fallback: { reason in
///   try await images.get(small)
/// }
/// ```
///
/// Calls in `operation` may not use the networks that `reasons` name, in addition to networks that
/// are forbidden anyway. `expensive` and `constrained` forbid such access, and reasons that name a
/// medium forbid that (C8). The others forbid nothing.
///
/// If a call is refused for one of these reasons, `fallback` runs instead, with the previous
/// settings. Access is checked once, before the call starts. A call in flight continues if its path
/// changes to such a network. The call ends only if the channel forbids the network as well
/// (``NetworkAwareTransport/Config/access``, I8). Then `fallback` runs, too.
///
/// All other errors are rethrown: errors of a cancelled task, and refusals for a reason that is not
/// in `reasons`. If `operation` makes several calls, some may already have been carried out.
///
/// - Parameters:
///   - reasons: The reasons for which `fallback` runs. If empty, only `operation` runs.
///   - isolation: The actor on which the closures run.
///   - operation: Makes the preferred calls.
///   - fallback: Makes lighter calls. Receives the reason.
/// - Returns: The result of the last closure that ran.
/// - Throws: The error of the last closure that ran.
public func withFallback<Result>(
  on reasons: Set<NetworkUnavailableError.Reason>, isolation: isolated (any Actor)? = #isolation,
  operation: () async throws -> Result,
  fallback: (NetworkUnavailableError.Reason) async throws -> Result
) async throws -> Result {
  do {
    return try await withCallSettings(
      { $0.access = $0.access.intersection(NetworkAccess(forbidding: reasons)) },
      operation: operation)
  } catch {
    guard
      !Task.isCancelled, let reason = NetworkUnavailableError.Reason(of: error),
      reasons.contains(reason)
    else { throw error }
    return try await fallback(reason)
  }
}

extension NetworkAccess {
  /// Allows all networks except for the given reasons.
  init(forbidding reasons: Set<NetworkUnavailableError.Reason>) {
    self.init(
      allowsExpensiveAccess: !reasons.contains(.expensive),
      allowsConstrainedAccess: !reasons.contains(.constrained),
      prohibitedMedia: Set(NetworkMedium.allCases.filter { reasons.contains(.init($0)) }))
  }
}

extension NetworkUnavailableError.Reason {
  /// Creates the reason why the current network may not be used, or `nil` if `error` has another
  /// cause.
  ///
  /// Also searches the causes of an `RPCError`, of a `RuntimeError`, of errors that convert to an
  /// `RPCError`, and of a `NIOConnectionError`.
  public init?(of error: any Error) {
    var next: (any Error)? = error
    // The loop is bounded, because an error may name itself as its cause.
    for _ in 0..<16 {
      switch next {
      case let refusal as NetworkUnavailableError:
        self = refusal.reason
        return
      case let invalidation as InvalidationError:
        guard let reason = invalidation.networkUnavailableReason else { return nil }
        self = reason
        return
      case let error as RuntimeError:
        next = error.cause
      case let error as NIOConnectionError:
        // There is one error for each address that was tried.
        guard let reason = error.connectionErrors.lazy.compactMap({ Self(of: $0.error) }).first
        else {
          return nil
        }
        self = reason
        return
      case let error as any RPCErrorConvertible:
        next = error.rpcErrorCause
      default:
        return nil
      }
    }
    return nil
  }
}
