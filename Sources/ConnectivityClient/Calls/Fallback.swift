internal import Connectivity
internal import ConnectivitySession
internal import GRPCCore
private import NIOPosix

/// Tries `operation` on networks that may be used freely, and makes do with `fallback` on those that may not.
///
/// ```swift
/// let image = try await withFallback(on: [.constrained, .expensive]) {
///   try await images.get(large)
/// } fallback: { reason in
///   try await images.get(small)
/// }
/// ```
///
/// Calls in `operation` may not use the networks that `reasons` name, beside those that are forbidden anyway:
/// `expensive` forbids expensive access, `constrained` constrained access, and the others their medium (C8). One that
/// is refused for it makes room for `fallback`, which runs with the settings that held before. That is looked at once,
/// before the call starts: one that is under way when its path becomes such a network goes on. Only where the channel
/// forbids the network as well (``NetworkAwareTransport/Config/access``) is it ended (I8), and makes room, too.
///
/// Nothing else does: any other error, a refusal for a reason that is not in `reasons`, and what a cancelled task
/// throws pass through unchanged. Where `operation` makes several calls, some may have been carried out by then.
///
/// - Parameters:
///   - reasons: What `fallback` is for. Where it is empty, `operation` is all that runs.
///   - operation: Makes the calls that one would like to make.
///   - fallback: Makes lighter ones; it is told why.
/// - Returns: What the last of the two returns.
/// - Throws: What the last of the two throws.
public func withFallback<Result>(
  on reasons: Set<NetworkUnavailable.Reason>, isolation: isolated (any Actor)? = #isolation,
  operation: () async throws -> Result,
  fallback: (NetworkUnavailable.Reason) async throws -> Result
) async throws -> Result {
  do {
    return try await withCallSettings(
      { $0.access = $0.access.intersection(NetworkAccess(forbidding: reasons)) },
      operation: operation)
  } catch {
    guard
      !Task.isCancelled, let reason = NetworkUnavailable.Reason(of: error),
      reasons.contains(reason)
    else { throw error }
    return try await fallback(reason)
  }
}

extension NetworkAccess {
  /// Every network may be used but those that `reasons` name.
  init(forbidding reasons: Set<NetworkUnavailable.Reason>) {
    self.init(
      allowsExpensiveAccess: !reasons.contains(.expensive),
      allowsConstrainedAccess: !reasons.contains(.constrained),
      prohibitedMedia: Set(Medium.allCases.filter { reasons.contains(.init($0)) }))
  }
}

extension NetworkUnavailable.Reason {
  /// Why the network that there is may not be used, if that is what `error` is about; `nil` for any other error.
  ///
  /// Looks through the causes, too: those of an `RPCError`, of a `RuntimeError`, of what converts to an `RPCError`, and of a
  /// `NIOConnectionError`.
  public init?(of error: any Error) {
    var next: (any Error)? = error
    // An error may name itself as its cause.
    for _ in 0..<16 {
      switch next {
      case let refusal as NetworkUnavailable:
        self = refusal.reason
        return
      case let invalidation as FlowInvalidation:
        guard let reason = invalidation.networkUnavailableReason else { return nil }
        self = reason
        return
      case let error as RuntimeError:
        next = error.cause
      case let error as NIOConnectionError:
        // One for each address that was tried.
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
