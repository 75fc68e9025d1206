package import Connectivity

extension ReadTrigger {
  /// Returns why a single flow is no longer viable (T5).
  package func cause(
    of verdict: FlowTracker.Verdict, _ family: AddressFamily, from old: KernelPath,
    to new: KernelPath
  ) -> ChangeCause {
    if let cause = self.cause { return cause }
    guard case .events(let events) = self, !events.isEmpty else {
      return ChangeCause(.timer, "graceEnded", interface: old.interface)
    }
    let telling = events.firstIndex { event in
      if case .neighbour = event { return verdict.reason == .networkChanged }
      return event.indicatesLoss(CandidatePath(old))
        || verdict.reason == .sourceAddressLost && event.removesPrefix(below: old)
    }
    return telling.map { events.explanation(ofMessageAt: $0).cause(between: old, new) }
      ?? events.cause(of: family, from: old, to: new)
  }
}

extension ReadTrigger {
  /// The cause, as far as it is known without examining paths.
  package var firstCause: ChangeCause {
    if let cause = self.cause { return cause }
    guard case .events(let events) = self, let first = events.first else {
      return ChangeCause(.timer, "graceEnded")
    }
    return first.cause
  }
}

extension ReadTrigger {
  /// Returns the cause of an invalidation that `Watch` reports: a message that implies it, or the
  /// cause of the change published with it (T5).
  ///
  /// - Parameters:
  ///   - old: The path of the scope's address family before the reading.
  ///   - new: The path of that family now.
  func cause(
    of draft: InvalidationDetector.Draft, _ change: ConnectivityChange?, from old: KernelPath?,
    to new: KernelPath?
  )
    -> ChangeCause
  {
    if let cause = self.cause { return cause }
    let interface = draft.scope.interface
    if case .events(let events) = self,
      let telling = events.firstIndex(where: { $0.tells(draft) })
    {
      var cause = events.explanation(ofMessageAt: telling).cause
      cause.interface = cause.interface ?? interface
      return cause
    }
    switch change {
    case .transition(let transition): return transition.cause
    case .path(let change): return change.cause
    case .invalidation, .dns, nil: break
    }
    if case .events(let events) = self, let family = draft.scope.family, let old, let new,
      old != new
    {
      return events.cause(of: family, from: old, to: new)
    }
    return ChangeCause(.timer, "graceEnded", interface: interface)
  }
}

extension KernelEvent {
  /// Whether the message alone implies the invalidation.
  fileprivate func tells(_ draft: InvalidationDetector.Draft) -> Bool {
    switch (draft.reason, self) {
    case (.sourceAddressLost, .addressRemoved(let removed)):
      draft.scope.localAddresses?.contains(removed.address) == true
        || removed.isOfGlobalIPv6
          && draft.scope.localAddresses?.contains(where: \.isOfTranslator) == true
    case (.interfaceLost, .link(let link)):
      link.name == draft.scope.interface && link.state != .up
    case (.interfaceLost, .linkRemoved(let link)): link.name == draft.scope.interface
    case (.networkChanged, .neighbour): true
    default: false
    }
  }
}
