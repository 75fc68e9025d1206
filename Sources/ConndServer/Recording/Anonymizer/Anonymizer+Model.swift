import Connectivity
import ConnectivityRules

/// Replaces the state of an earlier run, and the requests of clients.
extension Anonymizer {
  func server(_ server: DNSSettings.Server) -> DNSSettings.Server {
    DNSSettings.Server(self.address(server.address), zone: server.zone.map(self.linkName))
  }

  func settings(_ settings: DNSSettings) -> DNSSettings {
    DNSSettings(
      servers: settings.servers.map(self.server), search: settings.search.map(self.domain),
      links: settings.links.map { link in
        DNSSettings.Link(
          interface: self.linkName(link.interface), servers: link.servers.map(self.server),
          search: link.search.map(self.domain))
      })
  }

  func snapshot(_ snapshot: ConnectivitySnapshot) -> ConnectivitySnapshot {
    var snapshot = snapshot
    snapshot.status.ipv4 = self.path(snapshot.status.ipv4)
    snapshot.status.ipv6 = self.path(snapshot.status.ipv6)
    snapshot.dns = snapshot.dns.map(self.settings)
    return snapshot
  }

  func path(_ path: KernelPath) -> KernelPath {
    var path = path
    path.chain = path.chain.map { KernelPath.Link(index: $0.index, name: self.linkName($0.name)) }
    path.source = path.source.map(self.address)
    path.gateway = path.gateway.map(self.address)
    if let evidence = path.evidence, evidence.source == .configuration {
      // The value is a pattern of the configuration.
      path.evidence = KernelPath.Evidence(
        .configuration, self.linkName(evidence.value), evidence.medium)
    }
    path.validation.portal = path.validation.portal.map { _ in self.portal }
    return path
  }

  /// Returns a change of the history with substitutes. Apart from a link's name, causes contain
  /// only names of kernel messages and user IDs.
  func change(_ change: ConnectivityChange) -> ConnectivityChange {
    switch change {
    case .transition(var transition):
      transition.snapshot = self.snapshot(transition.snapshot)
      transition.cause = self.cause(transition.cause)
      return .transition(transition)
    case .path(var change):
      change.snapshot = self.snapshot(change.snapshot)
      change.cause = self.cause(change.cause)
      return .path(change)
    case .invalidation(var invalidation):
      invalidation.scope = self.scope(invalidation.scope)
      invalidation.cause = self.cause(invalidation.cause)
      return .invalidation(invalidation)
    case .dns(var change):
      change.settings = self.settings(change.settings)
      change.cause = self.cause(change.cause)
      return .dns(change)
    }
  }

  private func cause(_ cause: ChangeCause) -> ChangeCause {
    var cause = cause
    cause.interface = cause.interface.map(self.linkName)
    return cause
  }

  private func scope(_ scope: Invalidation.Scope) -> Invalidation.Scope {
    var scope = scope
    scope.interface = scope.interface.map(self.linkName)
    scope.localAddresses = scope.localAddresses?.map(self.address)
    if case .address(let address) = scope.destination {
      scope.destination = .address(self.address(address))
    }
    return scope
  }

  func modems(_ links: [String: ModemLink]) -> [String: ModemLink] {
    let substitutes = links.map { name, link -> (String, ModemLink) in
      var link = link
      link.mobileOperator = link.mobileOperator.map(self.mobileOperator)
      return (self.linkName(name), link)
    }
    return Dictionary(substitutes) { first, _ in first }
  }

  func metering(_ words: MeteringReports) -> MeteringReports {
    var substitute = MeteringReports()
    for (name, state) in words.manager { substitute.manager[self.linkName(name)] = state }
    substitute.phones = Set(words.phones.map(self.linkName))
    return substitute
  }

  func checks(_ checks: [String: ConnectivityChecks]) -> [String: ConnectivityChecks] {
    Dictionary(checks.map { (self.linkName($0.key), $0.value) }) { first, _ in first }
  }

  func portals(_ portals: [String: String]) -> [String: String] {
    Dictionary(portals.map { (self.linkName($0.key), self.portal) }) { first, _ in first }
  }

  /// The substitute for the URI of every captive portal, which may reveal where the machine is.
  var portal: String { "https://portal.invalid/" }

  private func destination(_ destination: Destination) -> Destination {
    var destination = destination
    destination.address = self.address(destination.address)
    destination.source = destination.source.map(self.address)
    return destination
  }

  // MARK: - Inputs

  /// Returns a request with substitutes, or `nil` if it is not recorded.
  func input(_ input: Input) -> Input? {
    switch input {
    case .configure(let configuration, _):
      return (try? Configuration.parse(self.text(of: configuration), file: "")).map {
        .configure($0, .unheard)
      }
    case .query(var query):
      query.kind = self.kind(query.kind)
      return .query(query)
    case .unwatch(let destination, let watcher):
      return .unwatch(self.destination(destination), watcher: watcher)
    case .flow(let request):
      return request.registration.map { .flow(.add(self.registration($0))) } ?? input
    case .drop, .admit, .dismiss: return input
    case .awaitFirstReading, .count: return nil
    }
  }

  private func kind(_ kind: KernelQuery.Kind) -> KernelQuery.Kind {
    switch kind {
    case .path(let destination, _): .path(self.destination(destination), .unheard)
    case .otherWay(let destination, _): .otherWay(self.destination(destination), .unheard)
    case .attempt(let destination, let outcome, _):
      .attempt(self.destination(destination), outcome, .unheard)
    case .explain(let destination, let links, _):
      .explain(destination.map(self.destination), links: links, .unheard)
    case .judge(let connections, _): .judge(connections.map(self.registration), .unheard)
    case .listLinks: .listLinks(.unheard)
    case .restOfLinks: .restOfLinks
    case .watch(let destination, _): .watch(self.destination(destination), .unheard)
    case .costs(let request, _): .costs(self.request(request), .unheard)
    }
  }

  private func request(_ request: CostRequest) -> CostRequest {
    switch request {
    case .list, .copy, .assist: return request
    // The name may be that of a link or of a network. A known link takes precedence.
    case .forget(let name, let user):
      let isLink = self.linkNames[name] != nil
      return .forget(name: isLink ? self.linkName(name) : self.networkName(name), user: user)
    case .set(var wish):
      switch wish.target {
      case .link(let name): wish.target = .link(self.linkName(name))
      case .network(let name): wish.target = .network(self.networkName(name))
      }
      return .set(wish)
    }
  }

  private func registration(_ registration: FlowTable.Registration) -> FlowTable.Registration {
    var registration = registration
    var flow = registration.flow
    flow.destination = self.destination(flow.destination)
    flow.local = flow.local.map(self.address)
    registration.flow = flow
    registration.knownPath = registration.knownPath.map(self.path)
    return registration
  }

  // MARK: - Overrides

  func overrides(_ contents: OverrideFile.Contents) -> OverrideFile.Contents {
    self.replace(contents.key)
    let overrides = contents.overrides.all.map {
      subject, override -> (CostOverrides.Subject, CostOverride) in
      switch subject {
      case .link(let name): (.link(self.linkName(name)), override)
      case .network(let hash): (.network(self.network(hash)), override)
      case .machine: (.machine, override)
      }
    }
    return OverrideFile.Contents(
      key: self.networkKeys.new,
      overrides: CostOverrides(Dictionary(overrides) { first, _ in first }))
  }
}
