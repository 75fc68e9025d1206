extension Occasion {
  /// Why a flow is not viable any more (T5).
  public func cause(
    of verdict: FlowTracker.Verdict, _ family: AddressFamily, from old: Path, to new: Path
  ) -> Cause {
    if let cause = self.cause { return cause }
    guard case .events(let events) = self, !events.isEmpty else {
      return Cause(.timer, "graceEnded", interface: old.interface)
    }
    let telling = events.first { event in
      if case .neighbour = event { return verdict.reason == .networkChanged }
      return event.saysGone(ObservedPath(old))
    }
    return telling?.cause(between: old, new) ?? events.cause(of: family, from: old, to: new)
  }
}
