import Connectivity
import ConnectivityRules

extension MonitorLoop {
  /// The maximum number of links and networks with overrides.
  private static let mostChoices = 1024

  mutating func answer(
    _ request: CostRequest
  ) -> Result<CostRequest.Answer, CostRequest.Refusal> {
    Result { () throws(CostRequest.Refusal) in
      switch request {
      case .set(let request):
        let (match, ticket) = try self.set(request)
        return .set(overruledBy: match, ticket)
      case .list: return .list(try self.listNetworks())
      case .forget(let name, let user):
        return .forgotten(try self.forget(name, user))
      }
    }
  }

  private func presentNetworks() throws(CostRequest.Refusal) -> [CurrentNetwork] {
    let present = self.ask { queries throws(KernelUnavailable) in
      try queries.presentNetworks()
    }
    switch present {
    case .success(let networks): return networks
    case .failure(let error): throw .kernel(error)
    }
  }

  /// Returns the subjects of an override. A network that the machine is on has a name or an
  /// identity, any other an identity or SSID. A bare SSID may be an open or a protected network, so
  /// it means both.
  private func subjects(
    _ target: CostRequest.Target, _ present: [CurrentNetwork]
  ) -> [CostOverrides.Subject] {
    switch target {
    case .link(let name): return [.link(self.firstName(ofLink: name))]
    case .network(let name):
      let current = present.filter { $0.name == name }.map(\.hash)
      if !current.isEmpty { return current.map { .network($0) } }
      if let identity = NetworkHash(name) { return [.network(identity)] }
      return self.engine.costs.key.hashes(ofName: name).map { .network($0) }
    }
  }

  /// Returns the primary name of a link for an alternative name. Any other name is returned
  /// unchanged.
  private func firstName(ofLink name: String) -> String {
    let link = self.ask { queries throws(KernelUnavailable) in
      try queries.kernel.link(named: name)
    }
    return (try? link.get())?.link.name ?? name
  }

  // MARK: - Changes

  private mutating func set(
    _ request: CostRequest.CostOverrideRequest
  ) throws(CostRequest.Refusal) -> (overruledBy: String?, OverrideStore.Ticket?) {
    let present = try self.presentNetworks()
    let subjects = self.subjects(request.target, present)
    if case .network(let name) = request.target, IPAddress(name) != nil,
      !present.contains(where: { $0.name == name })
    {
      // Taken as an SSID, the address would be stored without any effect.
      throw .invalid(
        "network: no default path uses the gateway \(name), or it has not answered yet")
    }
    if case .left = request.end {
      guard
        subjects.contains(where: { subject in present.contains { .network($0.hash) == subject } })
      else { throw .invalid("when_left: the machine is not on this network") }
    }
    var costs = self.engine.costs
    let end = self.end(of: request)
    if case .time = end {
      self.timedOverrides.formUnion(subjects)
      _ = self.overrideClocks.step(to: self.clock.now, self.clock.time)
    }
    for subject in subjects {
      var choice = costs.overrides[subject] ?? CostOverride(user: request.user)
      choice.user = request.user
      if let said = request.constrained { choice.constrained = said.setting(until: end) }
      if let said = request.expensive { choice.expensive = said.setting(until: end) }
      costs.overrides[subject] = choice
    }
    guard costs.overrides.all.count <= Self.mostChoices else {
      throw .full(
        "too many overrides (\(Self.mostChoices)): remove some with connctl networks forget")
    }
    let (who, link) = ("uid \(request.user)", request.target.link)
    let ticket = self.take(
      costs, subjects,
      request.constrained == nil
        ? Cause(.user, "expensiveSet", message: who, interface: link)
        : Cause(.user, "constrainedSet", message: who, interface: link))
    return (self.overruling(request, subjects, present), ticket)
  }

  private func end(of request: CostRequest.CostOverrideRequest) -> CostOverride.End? {
    switch request.end {
    case .after(let duration): .time(self.clock.time.advanced(by: duration))
    case .boot: .boot
    case .left: .left
    case nil: nil
    }
  }

  private mutating func forget(
    _ name: String, _ user: UInt32
  ) throws(CostRequest.Refusal) -> OverrideStore.Ticket? {
    let subjects =
      self.subjects(.network(name), try self.presentNetworks())
      + Set([name, self.firstName(ofLink: name)]).sorted().map { CostOverrides.Subject.link($0) }
    var costs = self.engine.costs
    let known = subjects.filter { costs.overrides[$0] != nil }
    guard !known.isEmpty else { throw .notFound("no override for “\(name)”") }
    for subject in known { costs.overrides[subject] = nil }
    return self.take(costs, known, Cause(.user, "choiceForgotten", message: "uid \(user)"))
  }

  /// Stores overrides and publishes their effect.
  ///
  /// - Returns: The ticket that tells whether they outlive connd, or `nil` if they do not.
  @discardableResult
  private mutating func take(
    _ costs: OverrideFile.Contents, _ subjects: [CostOverrides.Subject], _ cause: Cause
  ) -> OverrideStore.Ticket? {
    let ticket = self.overrideStore?.keep(costs)
    guard costs != self.engine.costs else { return ticket }
    self.engine.costs = costs
    self.logger.notice(
      "cost overrides changed",
      metadata: [
        "cause": "\(cause.change)", "user": "\(cause.message ?? "none")",
        "of": "\(subjects.map(\.description).joined(separator: ", "))",
      ])
    self.step(.choice(cause))
    return ticket
  }

  /// Returns the `match` of the configuration's entry that takes precedence, or `nil` if none does.
  private func overruling(
    _ request: CostRequest.CostOverrideRequest, _ subjects: [CostOverrides.Subject],
    _ present: [CurrentNetwork]
  ) -> String? {
    let links = subjects.flatMap { subject in
      switch subject {
      case .link(let name): [name]
      case .network(let network): present.first { $0.hash == network }?.links ?? []
      }
    }
    let rules = links.compactMap { self.engine.reader.classifier.policy.rule(for: $0) }
    return rules.first { rule in
      (request.constrained?.isOn).map { $0 != rule.constrained ?? $0 } ?? false
        || (request.expensive?.isOn).map { $0 != rule.expensive ?? $0 } ?? false
    }?.match
  }

  // MARK: - Ends

  /// The next end of an override by the clock.
  var overridesEnd: Instant? {
    self.engine.costs.overrides.nextEnd.map { end in
      self.clock.now.advanced(by: max(self.clock.time.duration(to: end), .zero))
    }
  }

  /// Removes overrides that are over.
  mutating func endOverrides() {
    guard self.engine.costs.overrides.hasEnds else { return }
    var costs = self.engine.costs
    let time = self.clock.time
    if let step = self.overrideClocks.step(to: self.clock.now, time) {
      costs.overrides.shiftEnds(of: self.timedOverrides, by: step)
      self.engine.costs = costs
      _ = self.overrideStore?.keep(costs)
    }
    let over = costs.overrides.end(at: time, on: self.networksToLeave())
    guard !over.isEmpty else { return }
    self.take(costs, over, Cause(.user, "choiceEnded"))
  }

  /// Returns the present networks if the kernel was read since the last call, or else nothing: only
  /// then can the machine have left a network.
  private mutating func networksToLeave() -> Set<NetworkHash> {
    guard self.engine.costs.overrides.endWithNetworks, self.mayHaveLeft else { return [] }
    self.mayHaveLeft = false
    let networks = self.ask { queries throws(KernelUnavailable) in
      try queries.knownNetworks()
    }
    return (try? networks.get()) ?? []
  }

  // MARK: - Listing

  private func listNetworks() throws(CostRequest.Refusal) -> [CostRequest.ListedNetwork] {
    let overrides = self.engine.costs.overrides
    let isNamed = self.engine.identify == .shown
    let present = try self.presentNetworks()
    let current = present.map { network in
      CostRequest.ListedNetwork(
        subject: .network(network.hash), override: overrides[.network(network.hash)],
        current: (isNamed ? network.name : nil, network.medium))
    }
    let others = overrides.all.filter { subject, _ in
      !present.contains { .network($0.hash) == subject }
    }
    // Networks come first, because they have no link.
    let sorted = others.sorted {
      ($0.key.link ?? "", $0.key.description) < ($1.key.link ?? "", $1.key.description)
    }
    return current + sorted.map { CostRequest.ListedNetwork(subject: $0, override: $1) }
  }
}

extension CostOverrides.Subject {
  fileprivate var link: String? { if case .link(let name) = self { name } else { nil } }
}

extension CostRequest.Target {
  fileprivate var link: String? { if case .link(let name) = self { name } else { nil } }
}

extension CostRequest.Value {
  fileprivate func setting(until end: CostOverride.End?) -> CostOverride.Setting? {
    self.isOn.map { CostOverride.Setting($0, until: end) }
  }
}
