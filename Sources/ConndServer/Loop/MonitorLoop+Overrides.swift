import Connectivity
import ConnectivityRules

// Users' cost overrides.
extension MonitorLoop {
  /// When the next override with an end time ends.
  var overridesEnd: Instant? {
    self.engine.costs.overrides.nextEnd.map { end in
      self.clock.now.advanced(by: max(self.clock.time.duration(to: end), .zero))
    }
  }

  /// Stores overrides, and notes that the kernel must be read for their effect.
  ///
  /// - Returns: The ticket that reports whether they are stored, or `nil` without a store.
  @discardableResult
  mutating func apply(_ change: OverrideRequests.Change) -> OverrideStore.Ticket? {
    if change.isTimed {
      self.overrides.note(timed: change.subjects, at: self.clock.now, self.clock.time)
    }
    let ticket = self.overrides.store?.keep(change.costs)
    guard change.costs != self.engine.costs else { return ticket }
    self.engine.costs = change.costs
    self.feed.log(change)
    self.note(.override(change.cause))
    return ticket
  }

  /// Removes overrides that have ended.
  mutating func endOverrides() {
    guard self.engine.costs.overrides.hasEnds else { return }
    var costs = self.engine.costs
    if self.overrides.shift(&costs, at: self.clock.now, self.clock.time) {
      self.engine.costs = costs
      _ = self.overrides.store?.keep(costs)
    }
    let over = costs.overrides.end(at: self.clock.time, on: self.networksToLeave())
    guard !over.isEmpty else { return }
    self.apply(.init(costs: costs, subjects: over, cause: ChangeCause(.user, "choiceEnded")))
  }

  /// Returns the present networks if the kernel was read since the last call, or else an empty set.
  /// Only a reading can show that the machine left a network.
  private mutating func networksToLeave() -> Set<NetworkHash> {
    guard self.engine.costs.overrides.endWithNetworks, self.overrides.mayHaveLeft else { return [] }
    self.overrides.mayHaveLeft = false
    let networks = self.ask { queries throws(KernelUnavailable) in try queries.knownNetworks() }
    return (try? networks.get()) ?? []
  }
}
