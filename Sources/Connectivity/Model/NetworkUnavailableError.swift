/// The error of a call that may not use the available network: the cause of an `RPCError` with code
/// `unavailable`.
///
/// Named after `URLError.NetworkUnavailableReason`. Cases named after a medium, such as `cellular`,
/// mean that the call prohibits that medium.
///
/// Implements rule C8.
public struct NetworkUnavailableError: Error, Hashable, Sendable {
  /// Why the network may not be used.
  @nonexhaustive public enum Reason: String, Hashable, Sendable, CaseIterable {
    /// The network's path costs money.
    case expensive
    /// The cost is unknown. Only discretionary work (`DiscretionaryTask`) waits for that reason.
    case costUnknown
    /// Programs should save data on the network's path.
    case constrained
    /// The call prohibits this medium. The same applies to the media below.
    case cellular
    case wifi
    case wired
    case bluetooth
    case tunnel
    case loopback
    /// The medium is unknown, or the network itself is unknown and the call requires a known one.
    case unknown
  }

  public var reason: Reason
  /// The path that the call would have taken.
  public var path: KernelPath

  public init(reason: Reason, path: KernelPath) {
    self.reason = reason
    self.path = path
  }
}

extension NetworkUnavailableError.Reason {
  /// Creates the reason for a prohibited medium.
  public init(_ medium: NetworkMedium) {
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

extension NetworkUnavailableError: CustomStringConvertible {
  public var description: String {
    if self.path.status == .unknown { return "the network is unknown" }
    let interface = self.path.interface ?? "nothing"
    return switch self.reason {
    case .expensive: "the path over \(interface) is metered, which is forbidden"
    case .costUnknown: "the cost of the path over \(interface) is unknown"
    case .constrained: "the path over \(interface) is constrained, which is forbidden"
    default: "the path over \(interface) is \(self.path.medium.rawValue), which is forbidden"
    }
  }
}
