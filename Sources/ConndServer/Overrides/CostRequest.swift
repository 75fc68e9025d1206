import Connectivity
import ConnectivityRules

/// A client's request about cost overrides, processed on the monitor thread.
enum CostRequest: Sendable {
  /// The link or network that the request names.
  enum Target: Sendable, Hashable {
    case link(String)
    case network(String)
  }

  /// The requested value of a property. Recordings contain the numbers.
  enum Value: UInt8, Sendable {
    case on = 1
    case off
    /// connd decides.
    case auto

    /// Whether the property is set, or `nil` if connd decides.
    var isOn: Bool? { self == .auto ? nil : self == .on }
  }

  /// A request to change an override. `nil` leaves a property unchanged.
  struct CostOverrideRequest: Sendable {
    var target: Target
    var constrained: Value?
    var expensive: Value?
    var end: End?
    var user: UInt32
  }

  /// When the override ends.
  enum End: Sendable {
    case after(Duration)
    case boot
    case left
  }

  /// A request about the use of other ways (W6).
  struct AssistRequest: Sendable {
    var value: Value
    var end: End?
    var user: UInt32
  }

  case set(CostOverrideRequest)
  case assist(AssistRequest)
  case list
  /// The overrides of one user, or those of all users.
  case copy(of: UInt32?)
  case forget(name: String, user: UInt32)

  enum Answer: Sendable {
    /// The `match` of the configuration's entry that takes precedence, or `nil` if none does.
    case set(overruledBy: String?, OverrideStore.Ticket?)
    case list([ListedNetwork], assist: CostOverride.Setting?)
    case copy(OverrideFile.Contents)
    case forgotten(OverrideStore.Ticket?)
  }

  /// A current network, or another network or a link with an override.
  struct ListedNetwork: Sendable {
    var subject: CostOverrides.Subject
    var override: CostOverride?
    /// The name, unless it is hidden, and the medium. `nil` if the machine is not on the network.
    var current: (name: String?, medium: NetworkMedium)?
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
