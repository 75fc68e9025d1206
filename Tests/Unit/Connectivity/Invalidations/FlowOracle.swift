import Connectivity
import ConnectivityRules

/// A flow in a random history, and the reports it may and must get, by the rules and not by the
/// code.
struct FlowOracle {
  let aim: Scene.Aim
  let family: AddressFamily
  private(set) var tracker: FlowTracker
  private(set) var isOver = false

  /// The state of the flow's own way, as the kernel shows it (I0).
  private enum Way: Hashable {
    case here
    /// Its address is gone for good, or may come back (I1).
    case sourceGone
    case sourceAway
    /// Its link is gone or down, or has lost its carrier while another link works (I2, I10).
    case linkFailed
    case carrierLost
    /// Only the route is missing; another link may have taken over.
    case routeLost(isTakenOver: Bool)
    /// The system prefers another link (I3).
    case moved
  }

  /// The flow's link, and the last known network behind it.
  private var link: UInt32?
  private var medium: NetworkMedium
  private var network: NetworkIdentity
  private var last = Way.here
  /// The end of its grace period.
  private var due: Instant?
  private var wasDrained = false
  /// Its route is missing, and another link has taken over since.
  private var isDraining = false
  private var lastAlternative: FlowReading.Alternative?
  private let hasChosen: Bool

  /// Registers a flow, or returns `nil` without a path for it.
  init?(
    _ aim: Scene.Aim, _ family: AddressFamily, _ daemon: TestDaemon, _ policy: InvalidationPolicy,
    at now: Instant, broken: inout String?
  ) {
    let source = daemon.scene.path(to: aim, family).source
    let path = daemon.scene.path(to: aim, family, from: source)
    guard path.status == .satisfied else { return nil }
    let reading = daemon.reading(of: path, from: source, to: aim, family)
    (self.aim, self.family) = (aim, family)
    (self.link, self.medium, self.network) = (path.chain.first?.index, path.medium, reading.network)
    (self.lastAlternative, self.hasChosen) = (reading.alternative, reading.alternative != nil)
    self.tracker = FlowTracker(
      Flow(Destination(.unspecified(family)), local: source), on: path, network: reading.network)
    if let verdict = self.tracker.register(on: reading, since: nil, policy: policy, at: now) {
      broken = "I0: refuted at registration: \(verdict.text)"
    }
  }

  /// Checks a reading against the flow's reports and the stream's.
  ///
  /// - Returns: a description of the fault, or `nil`.
  mutating func look(
    at reading: FlowReading, slept: Duration?, beside told: [Invalidation],
    _ policy: InvalidationPolicy, at now: Instant
  ) -> String? {
    let old = self.tracker.path
    let verdict = self.tracker.update(to: reading, slept: slept, policy: policy, at: now)
    self.isOver = verdict?.severity == .destroy
    guard reading.path.status != .unknown else {
      return verdict == nil || verdict?.reason == .resumed ? nil : "K8: told unasked"
    }
    let way = self.way(reading, at: now)
    self.findEnd(way, policy, at: now)
    defer { self.note(reading, way, verdict) }

    let wrong =
      self.missing(verdict, reading, way, slept, policy, at: now)
      ?? verdict.flatMap { self.unfounded($0, reading, way, slept, policy, at: now) }
    if let wrong { return "\(wrong) (\(way), \(verdict?.text ?? "nothing") told)" }
    if self.isOver { return self.unsaid(verdict, old, told) }
    // Only an older flow can know that its network is another.
    if self.aim == .elsewhere, let said = told.first(where: { self.isHit(by: $0, old) }),
      said.reason != .networkChanged
    {
      return "the stream destroys a flow that goes on: \(said)"
    }
    if self.tracker.deadline != self.due { return "I10: the grace ends at another time" }
    if let deadline = self.tracker.deadline, deadline <= now { return "D7: a stale deadline" }
    var again = self.tracker
    if let twice = again.update(to: reading, policy: policy, at: now) {
      return "told twice: \(twice.text)"
    }
    return nil
  }

  // MARK: - Present state

  private func way(_ reading: FlowReading, at now: Instant) -> Way {
    if self.aim == .local { return .here }
    if let loss = reading.sourceLoss { return loss == .final ? .sourceGone : .sourceAway }
    if reading.formerLink == .failed { return .linkFailed }
    if reading.path.status == .satisfied {
      switch reading.formerLink {
      // A route that comes back during the grace period does not count as preferred yet.
      case .withRoute where self.isDraining && self.due.map { $0 > now } ?? false:
        return .routeLost(isTakenOver: true)
      case .withRoute: return .moved
      case .withoutRoute, .withWorseRoute: return .routeLost(isTakenOver: true)
      case .failed, .untied, .leg, nil: return .here
      }
    }
    let isOwn = reading.path.chain.first?.index == self.link
    return isOwn && reading.path.reason == .noCarrier
      ? .carrierLost : .routeLost(isTakenOver: false)
  }

  private mutating func findEnd(_ way: Way, _ policy: InvalidationPolicy, at now: Instant) {
    switch way {
    case .here, .sourceGone, .linkFailed, .moved: self.due = nil
    case .carrierLost:
      let end = now.advanced(by: policy.carrierGrace[self.medium] ?? .zero)
      self.due = min(self.due ?? end, end)
    case .routeLost, .sourceAway:
      self.due = self.due ?? now.advanced(by: policy.routeGrace)
    }
  }

  /// Whether the network behind its link is another (I4).
  private func isOtherNetwork(_ reading: FlowReading) -> Bool {
    let (now, before) = (reading.network, self.network)
    guard reading.path.status == .satisfied, reading.formerLink == nil, now.epoch > before.epoch
    else { return false }
    if !now.hasHardwareAddresses {
      return now.gateway != before.gateway || now.prefix != before.prefix
    }
    guard let mac = now.gatewayHardwareAddress, let earlier = before.gatewayHardwareAddress
    else { return false }
    return now.gateway != nil && now.gateway == before.gateway && mac != earlier
  }

  // MARK: - Required reports

  private func missing(
    _ verdict: FlowTracker.Verdict?, _ reading: FlowReading, _ way: Way, _ slept: Duration?,
    _ policy: InvalidationPolicy, at now: Instant
  ) -> String? {
    func lacks(_ reason: Invalidation.Reason?, _ severity: Invalidation.Severity) -> Bool {
      guard let verdict, verdict.severity >= severity else { return true }
      return reason.map { $0 != verdict.reason } ?? false
    }
    switch way {
    case .sourceGone where lacks(.sourceAddressLost, .destroy): return "I1: not told"
    case .linkFailed where lacks(.interfaceLost, .destroy): return "I2: not told"
    case .sourceAway:
      let isOver = self.due.map { $0 <= now } ?? false
      if isOver || self.last != .sourceAway {
        if lacks(nil, isOver ? .destroy : .advise) { return "I1: not told" }
      }
    case .carrierLost, .routeLost:
      if let due, due <= now {
        if lacks(.interfaceLost, .destroy) { return "I10: no way when the grace is over" }
      } else if way == .routeLost(isTakenOver: true), !self.wasDrained {
        if lacks(nil, .drain) { return "I10: not drained" }
      } else if self.last == .here || self.last == .moved {
        if lacks(nil, .advise) { return "I10: not advised" }
      }
    case .moved where self.last != .moved && lacks(nil, policy.betterPath): return "I3: not told"
    case .here where self.isOtherNetwork(reading) && lacks(.networkChanged, .destroy):
      return "I4: not told"
    default: break
    }
    if let slept, slept >= .seconds(300), self.aim != .local, lacks(nil, .destroy) {
      return "I6: not told"
    }
    return nil
  }

  // MARK: - Allowed reports

  private func unfounded(
    _ verdict: FlowTracker.Verdict, _ reading: FlowReading, _ way: Way, _ slept: Duration?,
    _ policy: InvalidationPolicy, at now: Instant
  ) -> String? {
    let isFounded: Bool
    switch (verdict.reason, verdict.severity) {
    case (.sourceAddressLost, .destroy):
      isFounded =
        way == .sourceGone || way == .sourceAway && self.due.map { $0 <= now } ?? false
    case (.sourceAddressLost, .advise): isFounded = way == .sourceAway
    case (.interfaceLost, .destroy):
      isFounded = way == .linkFailed || self.due.map { $0 <= now } ?? false
    case (.interfaceLost, .drain): isFounded = way == .routeLost(isTakenOver: true)
    case (.interfaceLost, .advise): isFounded = self.due != nil
    case (.networkChanged, .destroy):
      isFounded = (way == .here || way == .sourceAway) && self.isOtherNetwork(reading)
    case (.networkChanged, .advise):
      isFounded = way == .here && reading.network.epoch == self.network.epoch
    case (.betterPath, let severity):
      let isAdvice = reading.alternative.map { $0.isKept || self.hasChosen } ?? false
      let isNew = reading.alternative != nil && reading.alternative != self.lastAlternative
      isFounded = severity == (isAdvice ? .advise : policy.betterPath) && (way == .moved || isNew)
    case (.resumed, let severity):
      isFounded = slept.map { ($0 >= .seconds(300)) == (severity == .destroy) } ?? false
    default: isFounded = false
    }
    if self.aim == .local { return "a flow to the machine itself" }
    return isFounded ? nil : "I0: unfounded"
  }

  /// The stream must also report whatever ends a flow on a default path.
  private func unsaid(
    _ verdict: FlowTracker.Verdict?, _ old: KernelPath, _ told: [Invalidation]
  ) -> String? {
    guard self.aim == .elsewhere else { return nil }
    // The stream has stopped following a path that drains, except for its address.
    if self.wasDrained, verdict?.reason != .sourceAddressLost { return nil }
    return told.contains {
      self.isHit(by: $0, old) || $0.scope == .everything && $0.severity == .destroy
    }
      ? nil : "the stream does not say \(verdict?.text ?? "")"
  }

  private func isHit(by said: Invalidation, _ path: KernelPath) -> Bool {
    guard said.severity == .destroy, said.scope != .everything else { return false }
    let addresses = said.scope.localAddresses
    return said.scope.interface.map { $0 == path.interface } ?? true
      && said.scope.family.map { $0 == self.family } ?? true
      && addresses.map { self.tracker.source.map($0.contains) ?? false } ?? true
  }

  // MARK: - Former state

  private mutating func note(
    _ reading: FlowReading, _ way: Way, _ verdict: FlowTracker.Verdict?
  ) {
    switch way {
    case .routeLost(let isTakenOver): self.isDraining = self.isDraining || isTakenOver
    case .here, .sourceGone, .linkFailed, .carrierLost, .moved: self.isDraining = false
    case .sourceAway: break
    }
    self.last = way
    self.lastAlternative = reading.alternative
    if way == .here { self.wasDrained = false }
    if verdict?.severity == .drain || way == .moved { self.wasDrained = true }
    guard way == .here, reading.path.status == .satisfied else { return }
    (self.link, self.medium) = (reading.path.chain.first?.index, reading.path.medium)
    // Unknown values keep their former state, as long as the gateway is the same.
    let now = reading.network
    let isForgotten =
      now.hasHardwareAddresses && now.gatewayHardwareAddress == nil
      && now.gateway == self.network.gateway
    if !isForgotten || reading.formerLink == .untied { self.network = now }
  }
}
