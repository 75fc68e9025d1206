import Connectivity
import ConnectivityProtocol
import ConnectivityRules

/// What somebody asks of users' choices, to be dealt with on the monitor's thread.
enum CostRequest: Sendable {
  /// Of what somebody speaks, as he names it.
  enum Target: Sendable, Hashable {
    case link(String)
    case network(String)
  }

  /// What somebody says; `nil`: as it is.
  struct Wish: Sendable {
    var target: Target
    var constrained: Connectivity_V1_Choice?
    var expensive: Connectivity_V1_Choice?
    var end: End?
    var user: UInt32
  }

  /// When it is to be over.
  enum End: Sendable {
    case after(Duration)
    case boot
    case left
  }

  case set(Wish)
  case list
  case forget(name: String, user: UInt32)

  enum Answer: Sendable {
    /// The `match` of the configuration's entry that holds instead.
    case set(overruledBy: String?, ChoiceKeeper.Ticket?)
    case list([Connectivity_V1_Network])
    case forgotten(ChoiceKeeper.Ticket?)
  }

  /// Why nothing came of it.
  enum Refusal: Error, Sendable {
    /// There is no such network, link or choice.
    case notFound(String)
    /// It makes no sense now.
    case invalid(String)
    /// Of more than this nothing is kept.
    case full(String)
    case kernel(KernelUnavailable)
  }
}
