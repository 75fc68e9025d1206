import Connectivity
import ConnectivityRules
import LinuxSupport

/// A client's request about its flows.
struct GuardRequest: Sendable {
  enum Action: Sendable {
    case add(FlowTable.Registration)
    /// A registration that was answered while the kernel was unavailable.
    case addAgain(FlowTable.Registration)
    case remove(FlowTable.Key)
    /// The client has heard from the flow's peer.
    case heard(FlowTable.Key)
  }

  var action: Action
  /// The account of the client. The loop sets it when it queues the request.
  var account: Account

  init(_ action: Action, of account: Account = .unknown) {
    (self.action, self.account) = (action, account)
  }

  static func add(_ registration: FlowTable.Registration) -> GuardRequest {
    GuardRequest(.add(registration))
  }

  static func remove(_ key: FlowTable.Key) -> GuardRequest { GuardRequest(.remove(key)) }

  var key: FlowTable.Key {
    switch self.action {
    case .add(let registration), .addAgain(let registration): registration.key
    case .remove(let key), .heard(let key): key
    }
  }

  var registration: FlowTable.Registration? {
    switch self.action {
    case .add(let registration), .addAgain(let registration): registration
    case .remove, .heard: nil
    }
  }
}

/// The answer to a request.
enum GuardAnswer: Sendable {
  case event(FlowEvent)
  /// The request exceeds the limit with this name.
  case exceeds(limit: String, FlowRefusal)
  case removed
  /// The request needs no answer.
  case handled
  /// The client already has this answer: the path is unknown.
  case unchanged
}
