@testable import Connectivity

/// A flow of a random history, and what may and must be told of it, by the rules and not by the code.
struct WatchedFlow {
  let aim: Scene.Aim
  let family: AddressFamily
  private(set) var tracker: FlowTracker
  private(set) var isOver = false

  /// What there was when it was looked at last.
  private var last: FlowReading
  /// The router that was seen behind its link.
  private var router: [UInt8]?
  /// Since when it has had no path.
  private var lostAt: Instant?
  private var isCategoryInDoubt = false
  private var isDraining = false

  init(_ aim: Scene.Aim, _ family: AddressFamily, _ reading: FlowReading) {
    self.aim = aim
    self.family = family
    self.last = reading
    self.router = reading.network.gatewayHardwareAddress
    self.tracker = FlowTracker(
      Flow(Destination(.unspecified(family)), local: reading.path.source), on: reading.path,
      network: reading.network)
  }

  /// Looks at a reading, beside what the stream has told of the same.
  ///
  /// - Returns: what is wrong, if anything.
  mutating func look(
    at reading: FlowReading, _ circumstances: FlowTracker.Circumstances,
    beside told: [Invalidation], _ policy: InvalidationPolicy, at now: Instant
  ) -> String? {
    let isSame = self.isSame(reading)
    let old = self.tracker.path
    let verdict = self.tracker.update(to: reading, circumstances, policy: policy, at: now)
    var again = self.tracker
    let isDestroyed = verdict?.severity == .destroy
    self.isOver = isDestroyed
    if verdict?.severity == .drain { self.isDraining = true }
    defer { self.note(reading, circumstances, at: now) }

    if reading.path.status == .unknown {
      return isDestroyed && verdict?.reason != .resumed ? "K8: destroyed unasked" : nil
    }
    if let wrong = self.missing(verdict, reading, circumstances, policy, at: now) { return wrong }
    if isDestroyed {
      return self.wrong(verdict, isSame: isSame, circumstances, told)
        ?? self.unsaid(verdict, old, told)
    }
    if isSame, self.aim == .elsewhere, let said = told.first(where: { self.isHit(by: $0, old) }),
      // Only an older flow can know that its network is another.
      said.reason != .networkChanged || self.router != nil
    {
      return "the stream destroys a flow that goes on: \(said)"
    }
    if let deadline = self.tracker.deadline, deadline <= now { return "D7: a stale deadline" }
    if again.update(to: reading, policy: policy, at: now) != nil { return "told twice" }
    return nil
  }

  // MARK: - What must be

  private func missing(
    _ verdict: FlowTracker.Verdict?, _ reading: FlowReading,
    _ circumstances: FlowTracker.Circumstances, _ policy: InvalidationPolicy, at now: Instant
  ) -> String? {
    let expected: Invalidation.Reason? =
      reading.isSourceGone ? .sourceAddressLost : reading.isLinkLost ? .interfaceLost : nil
    if let expected, verdict?.severity != .destroy || verdict?.reason != expected {
      return "I1 I2: not \(expected)"
    }
    let severity = verdict?.severity
    switch circumstances.categoryChange {
    case .changed(let least) where !self.isSpared(reading):
      if severity.map({ $0 < least }) ?? true { return "I5: not told" }
    case .overdue(let least) where self.isCategoryInDoubt && !self.isSpared(reading):
      if severity.map({ $0 < least }) ?? true { return "I5: not told in the end" }
    default: break
    }
    if reading.path.status != .satisfied, let lostAt, lostAt.advanced(by: .seconds(1)) <= now,
      severity != .destroy
    {
      return "I10: no path for a second"
    }
    let isMoved =
      reading.path.status == .satisfied && reading.path.chain.first != self.last.path.chain.first
      && reading.path.chain.first != self.tracker.path.chain.first && self.lostAt == nil
    if isMoved, severity.map({ $0 < policy.betterPath }) ?? true {
      return "I3: not told"
    }
    return nil
  }

  /// What the rules spare of a changed category.
  private func isSpared(_ reading: FlowReading) -> Bool {
    if self.aim == .local { return true }
    return reading.path.status == .satisfied && reading.path.gateway == nil
      && self.tracker.path.gateway == nil
      && reading.path.chain.first == self.tracker.path.chain.first
  }

  // MARK: - What may be

  private func wrong(
    _ verdict: FlowTracker.Verdict?, isSame: Bool, _ circumstances: FlowTracker.Circumstances,
    _ told: [Invalidation]
  ) -> String? {
    guard isSame, let reason = verdict?.reason, reason != .resumed else { return nil }
    guard reason == .categoryChanged else { return "\(reason), and nothing is different" }
    if self.aim == .local { return "I5: a flow to the machine itself" }
    let wide = told.first { $0.scope == .everything }
    return wide?.severity == .destroy ? nil : "I5: destroyed, and the stream only advises"
  }

  /// What ends a flow on a default path, the stream must say, too.
  private func unsaid(
    _ verdict: FlowTracker.Verdict?, _ old: Path, _ told: [Invalidation]
  ) -> String? {
    guard self.aim == .elsewhere else { return nil }
    // The stream has let go of a path that drains, but for its address.
    if self.isDraining, verdict?.reason == .interfaceLost { return nil }
    return told.contains {
      self.isHit(by: $0, old) || $0.scope == .everything && $0.severity == .destroy
    }
      ? nil : "the stream does not say \(verdict?.text ?? "")"
  }

  private func isHit(by said: Invalidation, _ path: Path) -> Bool {
    guard said.severity == .destroy, said.scope != .everything else { return false }
    let addresses = said.scope.localAddresses
    return said.scope.interface.map { $0 == path.interface } ?? true
      && said.scope.family.map { $0 == self.family } ?? true
      && addresses.map { self.tracker.source.map($0.contains) ?? false } ?? true
  }

  // MARK: - What was

  /// Whether path, source address and network are what they were when it was looked at last.
  private func isSame(_ reading: FlowReading) -> Bool {
    let router = reading.network.gatewayHardwareAddress
    return self.last.path.status == .satisfied && reading.path.status == .satisfied
      && self.last.path.chain == reading.path.chain
      && self.last.path.gateway == reading.path.gateway && !reading.isSourceGone
      && !reading.isLinkLost && (router == nil || self.router == nil || router == self.router)
      && self.lostAt == nil
  }

  private mutating func note(
    _ reading: FlowReading, _ circumstances: FlowTracker.Circumstances, at now: Instant
  ) {
    guard reading.path.status != .unknown else { return }
    self.last = reading
    self.router = reading.network.gatewayHardwareAddress ?? self.router
    if reading.path.status == .satisfied {
      self.lostAt = nil
    } else if self.lostAt == nil {
      self.lostAt = now
    }
    switch circumstances.categoryChange {
    case .inDoubt where !self.isSpared(reading): self.isCategoryInDoubt = true
    case nil: break
    default: self.isCategoryInDoubt = false
    }
  }
}
