import Connectivity
import ConnectivitySession

extension JSON {
  /// The object of `connctl watch --json`; `nil` for what concerns the connection and not the network.
  static func event(_ event: StatusEvent) -> JSON? {
    switch event {
    case .snapshot(let snapshot):
      return .head("snapshot", snapshot.generation).appending(["status": .status(snapshot)])
    case .gap(let snapshot):
      return .head("gap", snapshot.generation).appending(["status": .status(snapshot)])
    case .change(.transition(let transition)):
      return .head("transition", transition.snapshot.generation).appending(.body(transition))
    case .change(.path(let change)):
      return .head("path", change.snapshot.generation).appending([
        "status": .status(change.snapshot), "cause": .cause(change.cause),
      ])
    case .change(.invalidation(let invalidation)):
      return .invalidation(invalidation)
    case .change(.dns(let change)):
      return .head("dns", change.generation).appending(.dns(change.settings))
        .appending(["cause": .cause(change.cause)])
    case .disconnected, .resumed:
      return nil
    }
  }

  /// The object of `connctl history --json`: that of `watch`, and when it was.
  static func history(_ entry: HistoryEntry) -> JSON {
    switch entry {
    case .transition(let transition):
      .head("transition", transition.snapshot.generation)
        .appending(["time": .string(transition.time.description)])
        .appending(.body(transition))
    case .invalidation(let invalidation):
      .invalidation(invalidation)
    }
  }

  /// The object of `connctl guard --json`, for a flow to `destination`.
  static func flow(
    _ event: FlowEvent, generation: UInt64, destination: IPAddress, local: IPAddress?
  ) -> JSON? {
    switch event {
    case .path(let path), .betterPathGone(let path):
      return .head("path", generation).appending(.path(path, to: destination.description))
    case .invalidation(let invalidation):
      let scope = Invalidation.Scope(
        family: destination.family, localAddresses: local.map { [$0] },
        destination: .address(destination))
      return .head("invalidation", generation)
        .appending(
          .body(invalidation.reason, invalidation.severity, scope, invalidation.cause))
    case .refused:
      return nil
    }
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

  private static func invalidation(_ invalidation: Invalidation) -> JSON {
    .head("invalidation", invalidation.generation)
      .appending(
        .body(
          invalidation.reason, invalidation.severity, invalidation.scope, invalidation.cause)
      )
      .appending(["time": .string(invalidation.time.description)])
  }

  private static func scope(_ scope: Invalidation.Scope) -> JSON {
    [
      "interface": .string(scope.interface),
      "family": .string(scope.family?.rawValue),
      "localAddresses": scope.localAddresses.map { .array($0.map { .string($0.description) }) }
        ?? .null,
      "destination": .string(scope.destination?.description),
    ]
  }

  private static func head(_ event: String, _ generation: UInt64) -> JSON {
    ["event": .string(event), "generation": .number(generation)]
  }

  private static func body(
    _ reason: Invalidation.Reason, _ severity: Invalidation.Severity, _ scope: Invalidation.Scope,
    _ cause: Cause
  ) -> JSON {
    [
      "reason": .string(reason.rawValue),
      "severity": .string(severity.rawValue),
      "scope": .scope(scope),
      "cause": .cause(cause),
    ]
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
