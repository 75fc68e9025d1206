import Connectivity
import ConnectivityJSON
import ConnectivityMonitor

extension JSON {
  /// Returns the object of `connctl watch --json`, or `nil` for events of the connection rather
  /// than the network.
  static func event(_ event: StatusEvent) -> JSON? {
    switch event {
    case .snapshot(let snapshot): .event(snapshot: snapshot)
    case .gap(let snapshot): .event(gap: snapshot)
    case .change(let change): .event(change)
    case .disconnected, .resumed: nil
    }
  }

  /// Returns the object of `connctl history --json`: that of `watch`, with the time.
  static func history(_ change: ConnectivityChange) -> JSON {
    let time: JSON = ["time": .string(change.time.description)]
    return switch change {
    case .transition(let transition):
      .head("transition", change.generation).appending(time).appending(.body(transition))
    case .path(let path): .head("path", change.generation).appending(time).appending(.body(path))
    case .invalidation, .dns: .event(change)
    }
  }

  /// Returns the object of `connctl guard --json`, for a flow to `destination`.
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
          .body(invalidation.reason, invalidation.severity, scope, invalidation.cause)
        )
        .appending(["socket": invalidation.socket.map(JSON.socket) ?? .null])
    case .refused:
      return nil
    }
  }
}

extension JSON {
  /// Returns the state of a connection's socket. Times are in milliseconds. `lastHeardMs` is
  /// relative to the change, and negative before it.
  static func socket(_ testimony: SocketTestimony) -> JSON {
    [
      "lastHeardMs": .signed(testimony.lastHeard.milliseconds),
      "roundTripMs": .signed(testimony.roundTrip.milliseconds),
      "timeouts": .number(UInt64(clamping: testimony.timeouts)),
      "unacknowledged": .bool(testimony.hasUnacknowledgedData),
    ]
  }
}

extension Duration {
  fileprivate var milliseconds: Int64 {
    let (seconds, attoseconds) = self.components
    return seconds * 1000 + attoseconds / 1_000_000_000_000_000
  }
}
