import Connectivity
import ConnectivityRules

/// Decides about users' requests for cost overrides, with the current state of the kernel. Only the
/// loop applies the returned changes.
struct OverrideRequests {
  let queries: KernelQueries
  let costs: OverrideFile.Contents
  /// The wall-clock time.
  let time: WallTime

  /// The changed overrides, and the cause.
  struct Change {
    var costs: OverrideFile.Contents
    var subjects: [CostOverrides.Subject]
    var cause: ChangeCause
    /// Whether the override ends after a duration.
    var isTimed = false
    /// The `match` of the configuration's entry that takes precedence, or `nil` if none does.
    var overruledBy: String?
  }

  /// The maximum number of links and networks with overrides.
  static let maxOverrides = 1024

  private func presentNetworks() throws(CostRequest.Refusal) -> [CurrentNetwork] {
    do throws(KernelUnavailable) {
      return try self.queries.presentNetworks()
    } catch {
      throw .kernel(error)
    }
  }

  /// Returns the links or networks of a request. Current networks are named by name or identity,
  /// other networks by identity or SSID. An SSID means both the open and the protected network.
  private func subjects(
    _ target: CostRequest.Target, _ present: [CurrentNetwork]
  ) -> [CostOverrides.Subject] {
    switch target {
    case .link(let name): return [.link(self.firstName(ofLink: name))]
    case .network(let name):
      let current = present.filter { $0.name == name }.map(\.hash)
      if !current.isEmpty { return current.map { .network($0) } }
      if let identity = NetworkHash(name) { return [.network(identity)] }
      return self.costs.key.hashes(ofName: name).map { .network($0) }
    }
  }

  /// Returns the primary name of a link for an alternative name. Any other name is returned
  /// unchanged.
  private func firstName(ofLink name: String) -> String {
    (try? self.queries.kernel.link(named: name))?.link.name ?? name
  }

  /// Returns the change for a request to set an override.
  func set(_ request: CostRequest.CostOverrideRequest) throws(CostRequest.Refusal) -> Change {
    let present = try self.presentNetworks()
    let subjects = self.subjects(request.target, present)
    if case .network(let name) = request.target, IPAddress(name) != nil,
      !present.contains(where: { $0.name == name })
    {
      // If the address were taken as an SSID, the override would have no effect.
      throw .invalid(
        "network: no default path uses the gateway \(name), or it has not answered yet")
    }
    if case .left = request.end {
      guard
        subjects.contains(where: { subject in present.contains { .network($0.hash) == subject } })
      else { throw .invalid("when_left: the machine is not on this network") }
    }
    var costs = self.costs
    let end = self.end(request.end)
    for subject in subjects {
      var override = costs.overrides[subject] ?? CostOverride(user: request.user)
      override.user = request.user
      override.name = self.name(from: request.target)
      if let value = request.constrained { override.constrained = value.setting(until: end) }
      if let value = request.expensive { override.expensive = value.setting(until: end) }
      costs.overrides[subject] = override
    }
    guard costs.overrides.all.count <= Self.maxOverrides else {
      throw .full(
        "too many overrides (\(Self.maxOverrides)): remove some with connctl networks forget")
    }
    let set = request.constrained == nil ? "expensiveSet" : "constrainedSet"
    let values = [request.constrained, request.expensive].compactMap { $0 }
    let change = values.allSatisfy { $0 == .auto } ? "choiceForgotten" : set
    return Change(
      costs: costs, subjects: subjects,
      cause: ChangeCause(
        .user, change, message: "uid \(request.user)", interface: request.target.link),
      isTimed: end?.isTime ?? false, overruledBy: self.overruling(request, subjects, present))
  }

  /// Returns the name of a network that the user wrote, so that it can be shown to that user away
  /// from the network. An identity is not a name, and a gateway's address is not useful elsewhere.
  private func name(from target: CostRequest.Target) -> String? {
    guard case .network(let name) = target, self.queries.identify == .shown,
      NetworkHash(name) == nil, IPAddress(name) == nil
    else { return nil }
    return name
  }

  private func end(_ end: CostRequest.End?) -> CostOverride.End? {
    switch end {
    case .after(let duration): .time(self.time.advanced(by: duration))
    case .boot: .boot
    case .left: .left
    case nil: nil
    }
  }

  /// Returns the change for a request to allow or forbid the use of other ways.
  func assist(_ request: CostRequest.AssistRequest) -> Change {
    var costs = self.costs
    let end = self.end(request.end)
    costs.overrides[.machine] = CostOverride(
      assist: request.value.setting(until: end), user: request.user)
    return Change(
      costs: costs, subjects: [.machine],
      cause: ChangeCause(.user, "assistSet", message: "uid \(request.user)"),
      isTimed: end?.isTime ?? false)
  }

  /// Returns the change for a request to remove the overrides of a network or link.
  func forget(_ name: String, _ user: UInt32) throws(CostRequest.Refusal) -> Change {
    let subjects =
      self.subjects(.network(name), try self.presentNetworks())
      + Set([name, self.firstName(ofLink: name)]).sorted().map { CostOverrides.Subject.link($0) }
    var costs = self.costs
    let known = subjects.filter { costs.overrides[$0] != nil }
    guard !known.isEmpty else { throw .notFound("no override for “\(name)”") }
    for subject in known { costs.overrides[subject] = nil }
    return Change(
      costs: costs, subjects: known,
      cause: ChangeCause(.user, "choiceForgotten", message: "uid \(user)"))
  }

  /// Returns the `match` of the configuration's entry that takes precedence, or `nil` if none does.
  private func overruling(
    _ request: CostRequest.CostOverrideRequest, _ subjects: [CostOverrides.Subject],
    _ present: [CurrentNetwork]
  ) -> String? {
    let links = subjects.flatMap { subject -> [String] in
      switch subject {
      case .link(let name): [name]
      case .network(let network): present.first { $0.hash == network }?.links ?? []
      case .machine: []
      }
    }
    let rules = links.compactMap { self.queries.reader.classifier.policy.rule(for: $0) }
    return rules.first { rule in
      (request.constrained?.isOn).map { $0 != rule.constraint.map { $0 != .unconstrained } ?? $0 }
        ?? false
        || (request.expensive?.isOn).map { $0 != rule.expensive ?? $0 } ?? false
    }?.match
  }

  /// Lists the current networks, and all other networks and links with an override.
  func list() throws(CostRequest.Refusal) -> [CostRequest.ListedNetwork] {
    let overrides = self.costs.overrides
    let isNamed = self.queries.identify == .shown
    let present = try self.presentNetworks()
    let current = present.map { network in
      CostRequest.ListedNetwork(
        subject: .network(network.hash), override: overrides[.network(network.hash)],
        current: (isNamed ? network.name : nil, network.medium))
    }
    let others = overrides.all.filter { subject, _ in
      subject != .machine && !present.contains { .network($0.hash) == subject }
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

extension CostOverride.End {
  fileprivate var isTime: Bool { if case .time = self { true } else { false } }
}
