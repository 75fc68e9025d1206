package import Connectivity

extension JSON {
  /// Returns the object with which `connctl watch --json` begins.
  package static func event(snapshot: ConnectivitySnapshot) -> JSON {
    .head("snapshot", snapshot.generation).appending(["status": .status(snapshot)])
  }

  /// Returns the object of `connctl watch --json` for a gap.
  package static func event(gap snapshot: ConnectivitySnapshot) -> JSON {
    .head("gap", snapshot.generation).appending(["status": .status(snapshot)])
  }

  /// Returns the object of `connctl watch --json` for a change.
  package static func event(_ change: ConnectivityChange) -> JSON {
    switch change {
    case .transition(let transition):
      .head("transition", transition.snapshot.generation).appending(.body(transition))
    case .path(let change):
      .head("path", change.snapshot.generation).appending(.body(change))
    case .invalidation(let invalidation):
      .invalidation(invalidation)
    case .dns(let change):
      .head("dns", change.generation).appending(.dns(change.settings))
        .appending(["cause": .cause(change.cause)])
    }
  }

  package static func cause(_ cause: ChangeCause) -> JSON {
    [
      "trigger": .string(cause.trigger.rawValue),
      "change": .string(cause.change),
      "message": .string(cause.message),
      "interface": .string(cause.interface),
      "learntLate": .bool(cause.learntLate),
    ]
  }

  package static func invalidation(_ invalidation: Invalidation) -> JSON {
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

  package static func head(_ event: String, _ generation: UInt64) -> JSON {
    ["event": .string(event), "generation": .number(generation)]
  }

  package static func body(
    _ reason: Invalidation.Reason, _ severity: Invalidation.Severity, _ scope: Invalidation.Scope,
    _ cause: ChangeCause
  ) -> JSON {
    [
      "reason": .string(reason.rawValue),
      "severity": .string(severity.rawValue),
      "scope": .scope(scope),
      "cause": .cause(cause),
    ]
  }

  package static func body(_ change: ConnectivityChange.PathChange) -> JSON {
    ["status": .status(change.snapshot), "cause": .cause(change.cause)]
  }

  package static func body(_ transition: ConnectivityChange.Transition) -> JSON {
    [
      "from": .string(transition.from.rawValue),
      "to": .string(transition.to.rawValue),
      "bounced": .bool(transition.bounced),
      "cause": .cause(transition.cause),
      "status": .status(transition.snapshot),
    ]
  }
}
