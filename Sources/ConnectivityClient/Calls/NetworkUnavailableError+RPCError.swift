public import Connectivity
public import GRPCCore

extension NetworkUnavailableError: RPCErrorConvertible {
  public var rpcErrorCode: RPCError.Code { .unavailable }
  public var rpcErrorMessage: String { self.description }
  public var rpcErrorCause: (any Error)? { self }
}

extension RPCError {
  /// Why the call was not allowed to use the network, or `nil` if it failed for another reason.
  public var networkUnavailableReason: NetworkUnavailableError.Reason? {
    (self.cause as? NetworkUnavailableError)?.reason
      ?? (self.cause as? InvalidationError)?.networkUnavailableReason
  }

  /// Why the network made the call's connection useless, or `nil` if the call failed for another
  /// reason.
  public var invalidation: InvalidationError? { self.cause as? InvalidationError }
}
