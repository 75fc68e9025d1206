import Connectivity
import ConnectivityClient

extension JSON {
  /// The object of `connctl watch --json`; `nil` for what concerns the connection and not the network.
  static func event(_ event: StatusEvent) -> JSON? {
    switch event {
    case .snapshot(let snapshot):
      return .head("snapshot", snapshot).appending(["status": .status(snapshot)])
    case .gap(let snapshot):
      return .head("gap", snapshot).appending(["status": .status(snapshot)])
    case .change(.transition(let transition)):
      return .head("transition", transition.snapshot).appending(.body(transition))
    case .change(.path(let change)):
      return .head("path", change.snapshot).appending([
        "status": .status(change.snapshot), "cause": .cause(change.cause),
      ])
    case .disconnected, .resumed:
      return nil
    }
  }

  /// The object of `connctl history --json`: that of `watch`, and when it was.
  static func history(_ transition: Transition) -> JSON {
    .head("transition", transition.snapshot)
      .appending(["time": .string(transition.time.description)])
      .appending(.body(transition))
  }

  static func cause(_ cause: Cause) -> JSON {
    [
      "trigger": .string(cause.trigger.rawValue),
      "change": .string(cause.change),
      "message": .string(cause.message),
      "interface": .string(cause.interface),
      "learntLate": .bool(cause.learntLate),
    ]
  }

  private static func head(_ event: String, _ snapshot: Snapshot) -> JSON {
    ["event": .string(event), "generation": .number(snapshot.generation)]
  }

  private static func body(_ transition: Transition) -> JSON {
    [
      "from": .string(transition.from.rawValue),
      "to": .string(transition.to.rawValue),
      "bounced": .bool(transition.bounced),
      "cause": .cause(transition.cause),
      "status": .status(transition.snapshot),
    ]
  }
}
