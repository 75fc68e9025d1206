public import Connectivity
public import GRPCCore

extension NetworkUnavailable: RPCErrorConvertible {
  public var rpcErrorCode: RPCError.Code { .unavailable }
  public var rpcErrorMessage: String { self.description }
  public var rpcErrorCause: (any Error)? { self }
}

extension RPCError {
  /// Why the call was not allowed to use the network, or `nil` if it failed for another reason.
  public var networkUnavailableReason: NetworkUnavailable.Reason? {
    (self.cause as? NetworkUnavailable)?.reason
      ?? (self.cause as? FlowInvalidation)?.networkUnavailableReason
  }

  /// Why the network made the call's connection useless, or `nil` if the call failed for another
  /// reason.
  public var invalidation: FlowInvalidation? { self.cause as? FlowInvalidation }
}
