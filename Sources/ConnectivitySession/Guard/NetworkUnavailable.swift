public import Connectivity
public import GRPCCore

/// There is a network, and the call may not use it: the cause of an `RPCError` with code `unavailable`.
///
/// Named as `URLError.NetworkUnavailableReason`; `cellular` and `wifi` are for media that are prohibited.
///
/// Implements rule C8.
public struct NetworkUnavailable: Error, Hashable, Sendable {
  /// Why the network may not be used.
  @nonexhaustive public enum Reason: String, Hashable, Sendable, CaseIterable {
    /// It costs money.
    case expensive
    /// It is not known what it costs. Only work that waits (``DiscretionaryTask``) is held back by that.
    case costUnknown
    /// The user asked to save data.
    case constrained
    /// The others are media that are prohibited.
    case cellular
    case wifi
    case wired
    case bluetooth
    case tunnel
    case loopback
    /// It is a medium that nobody can tell; or nobody says which network it is, and that does not do.
    case unknown
  }

  public var reason: Reason
  /// The path that the call would have taken.
  public var path: Path

  public init(reason: Reason, path: Path) {
    self.reason = reason
    self.path = path
  }
}

extension NetworkUnavailable.Reason {
  /// That the medium is prohibited.
  public init(_ medium: Medium) {
    self =
      switch medium {
      case .wired: .wired
      case .wifi: .wifi
      case .cellular: .cellular
      case .bluetooth: .bluetooth
      case .loopback: .loopback
      case .tunnel: .tunnel
      case .unknown: .unknown
      }
  }
}

extension NetworkUnavailable: CustomStringConvertible {
  public var description: String {
    if self.path.status == .unknown { return "nobody knows which network it would use" }
    let interface = self.path.interface ?? "nothing"
    return switch self.reason {
    case .expensive: "the path by \(interface) costs money, which is not allowed"
    case .costUnknown: "it is not known what the path by \(interface) costs"
    case .constrained: "data are to be saved on the path by \(interface)"
    default: "the path by \(interface) is \(self.path.medium.rawValue), which is prohibited"
    }
  }
}

extension NetworkUnavailable: RPCErrorConvertible {
  public var rpcErrorCode: RPCError.Code { .unavailable }
  public var rpcErrorMessage: String { self.description }
  public var rpcErrorCause: (any Error)? { self }
}

extension RPCError {
  /// Why the call was not allowed to use the network that there is; `nil` where it failed for another reason.
  public var networkUnavailableReason: NetworkUnavailable.Reason? {
    (self.cause as? NetworkUnavailable)?.reason
      ?? (self.cause as? FlowInvalidation)?.networkUnavailableReason
  }

  /// Why the network made the call's connection useless; `nil` where the call failed for another reason.
  public var invalidation: FlowInvalidation? { self.cause as? FlowInvalidation }
}
