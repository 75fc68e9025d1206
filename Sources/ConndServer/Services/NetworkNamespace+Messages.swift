import ConnectivityProtocol

// connd speaks of the network namespace that it runs in, and says so with each status.

extension Connectivity_V1_Status {
  /// This status, of connd's own network namespace.
  func inOwnNamespace() -> Self {
    var status = self
    status.networkNamespace = NetworkNamespace.own ?? 0
    return status
  }
}

extension Connectivity_V1_GetPathResponse {
  /// This answer, of connd's own network namespace.
  func inOwnNamespace() -> Self {
    var answer = self
    answer.networkNamespace = NetworkNamespace.own ?? 0
    return answer
  }
}

extension Connectivity_V1_Transition {
  /// This transition, in connd's own network namespace.
  func inOwnNamespace() -> Self {
    var transition = self
    transition.status = transition.status.inOwnNamespace()
    return transition
  }
}

extension Connectivity_V1_WatchResponse {
  /// This message, of connd's own network namespace.
  func inOwnNamespace() -> Self {
    var message = self
    switch message.event {
    case .snapshot(let snapshot): message.snapshot.status = snapshot.status.inOwnNamespace()
    case .transition(let transition): message.transition = transition.inOwnNamespace()
    case .path(let change): message.path.status = change.status.inOwnNamespace()
    case .gap(let gap): message.gap.status = gap.status.inOwnNamespace()
    // It has no status.
    case .invalidation, nil: break
    }
    return message
  }
}
