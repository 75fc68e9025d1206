import Connectivity
import ConnectivityProtocol
import ConnectivityRules

/// A client's request about cost overrides, processed on the monitor thread.
enum CostRequest: Sendable {
  /// The link or network that the request names.
  enum Target: Sendable, Hashable {
    case link(String)
    case network(String)
  }

  /// A request to change an override; `nil`: leave unchanged.
  struct CostOverrideRequest: Sendable {
    var target: Target
    var constrained: Connectivity_V1_Choice?
    var expensive: Connectivity_V1_Choice?
    var end: End?
    var user: UInt32
  }

  /// When the override ends.
  enum End: Sendable {
    case after(Duration)
    case boot
    case left
  }

  case set(CostOverrideRequest)
  case list
  case forget(name: String, user: UInt32)

  enum Answer: Sendable {
    /// The `match` of the configuration's entry that takes precedence, or `nil` if none does.
    case set(overruledBy: String?, OverrideStore.Ticket?)
    case list([Connectivity_V1_Network])
    case forgotten(OverrideStore.Ticket?)
  }

  /// The reason why a request was refused.
  enum Refusal: Error, Sendable {
    /// The network, link or override does not exist.
    case notFound(String)
    /// The request is invalid in the current state.
    case invalid(String)
    /// The number of overrides has reached its limit.
    case full(String)
    case kernel(KernelUnavailable)
  }
}
