import Connectivity
import ConnectivityRules
import ModelRoutes
import Netlink

@testable import ConndServer

/// The memory of the invariants.
struct Record {
  /// Whether connd has restarted, and not all flows are registered again.
  var isRegistering = false
  /// Whether only noise has happened since connd's last full reading.
  var isCalm = false
  /// The clients of `Guard` with waiting messages.
  var waiting: Set<UInt64> = []
  /// The generation of the last publication.
  var lastGeneration: UInt64 = 0
  /// Since when the kernel cannot be asked.
  var blindSince: Instant?
  /// The last published snapshot, or `nil` if it is lost.
  var last: ConnectivitySnapshot?
  /// Since when a changed category is only advised, and which it was (I5).
  var advised: (since: Instant, category: NetworkCategory)?
  /// The trace's description of the network.
  var words: [String] = []
  /// When connd last had a reason to query sockets.
  var lastReasonToAsk = Instant(sinceStart: .zero)
  /// When the machine last woke from a long sleep.
  var longSleepAt: Instant?
  /// The queries to each socket within the last second, by local port.
  var questions: [UInt16: [Instant]] = [:]
  /// The sockets that were sound at their last query, by local port.
  var soundSockets: Set<UInt16> = []

  mutating func restarted(hasHistory: Bool) {
    if !hasHistory { self.last = nil }
    self.blindSince = nil
    self.advised = nil
    self.isCalm = false
    self.waiting = []
  }
}

extension Simulation {
  /// Processes the states of the network since the last look.
  func observe() {
    for network in self.kernel.takeVersions() {
      let before = self.truth.paths
      self.truth.follow(network, self.configuration.destinations)
      // If the probes already disagree, a captured one decides.
      if self.truth.paths != before { self.record.isCalm = false }
      for index in self.flows.indices {
        self.flows[index].observe(network, at: self.now)
      }
      if self.trace != nil { self.noteNetwork(network) }
    }
  }

  /// Processes connd's output.
  func look() {
    self.observe()
    for publication in self.daemon.published { self.look(at: publication) }
    self.lookAtTransitions(self.daemon.published.map(\.change))
    self.daemon.published = []
    for notice in self.daemon.told { self.look(at: notice) }
    self.daemon.told = []
    for batch in self.daemon.batches { self.look(at: batch) }
    self.lookAtSockets(after: self.daemon.batches)
    self.daemon.batches = []
  }

  // MARK: - Publications

  private func look(at publication: Daemon.Publication) {
    let (change, before) = (publication.change, publication.before)
    self.note("published \(change.generation): \(change.summary)")
    if change.generation != before.generation + 1 || change.generation <= self.record.lastGeneration
    {
      self.fail("I9: generation \(change.generation) after \(before.generation)")
    }
    self.record.lastGeneration = change.generation
    if case .transition(let transition) = change, let last = self.record.last,
      transition.from != last.status.category
    {
      self.fail("I7: \(transition.from) was not what was published last")
    }
    var last = self.record.last ?? publication.before
    last.apply(change)
    self.record.last = last
    self.noteAdvice(change)
    if self.record.isCalm { self.fail("T3: noise publishes \(change.summary)") }
  }

  private func noteAdvice(_ change: ConnectivityChange) {
    switch change {
    case .transition(let transition):
      if transition.to == self.record.advised?.category {
        self.record.advised = nil
      } else if transition.from != transition.to, transition.from != .offline,
        transition.from != .unknown, self.record.advised == nil
      {
        self.record.advised = (self.now, transition.from)
      }
    case .invalidation(let told)
    where told.scope == .everything && told.severity == .destroy:
      self.record.advised = nil
    case .path, .invalidation, .dns: break
    }
  }

  private func lookAtTransitions(_ changes: [ConnectivityChange]) {
    for (index, change) in changes.enumerated() {
      guard case .transition(let transition) = change, transition.from != transition.to,
        ![transition.from, transition.to].contains(where: { $0 == .offline || $0 == .unknown })
      else { continue }
      let next = changes[(index + 1)...].prefix { $0.snapshot == nil }
      let isReported = next.contains { change in
        guard case .invalidation(let told) = change else { return false }
        return told.reason == .categoryChanged && told.scope == .everything
      }
      if !isReported {
        self.fail("I5: \(transition.from) became \(transition.to), and nothing is invalid")
      }
    }
  }

  /// A loss on the published path that messages report is never swallowed (T2).
  private func look(at batch: Daemon.Batch) {
    guard batch.after.generation == batch.before.generation else { return }
    for family in AddressFamily.allCases {
      let path = batch.before.status[family]
      guard path.status == .satisfied else { continue }
      let telling = batch.events.first { event in
        switch event {
        case .link(let link):
          link.carrier != nil && link.state != .up && path.chain.contains { $0.index == link.index }
        case .linkRemoved(let link): path.chain.contains { $0.index == link.index }
        case .addressRemoved(let address):
          address.address == path.source && address.link == path.chain.first?.index
        default: false
        }
      }
      if let telling { self.fail("T2: swallowed \(telling)") }
    }
  }

  // MARK: - Reports about flows

  private func look(at notice: Daemon.Notice) {
    let (key, event) = (notice.key, notice.event)
    self.record.waiting.insert(key.mailbox)
    self.note(
      "flow \(key.mailbox)/\(key.id): \(event.summary)\(notice.isQuestion ? ", ask" : "")")
    guard let index = self.flows.firstIndex(where: { $0.key == key }) else { return }
    if self.flows[index].isOver { self.fail("I9: flow \(key) is told of after its end") }
    if notice.isQuestion, let port = self.flows[index].port { self.kernel.ask(port) }
    switch event {
    case .path(let path), .betterPathGone(let path):
      self.flows[index].told = path
      self.flows[index].isReported(path, in: self.kernel.network)
    case .invalidation(let invalidation):
      let path = invalidation.path ?? .unknown
      self.flows[index].told = path
      guard invalidation.severity == .destroy else {
        if invalidation.reason != .silent { self.flows[index].isAskedAnew() }
        break
      }
      self.checkEnd(of: self.flows[index], invalidation.reason, path)
      self.flows[index].isOver = true
      self.flows[index].passTime(to: self.now)
      let flow = self.flows[index]
      let mayBe =
        flow.disturbance != nil || flow.isForbidden(path) || flow.made == nil
        || invalidation.reason == .silent
      if flow.isLocal || !mayBe {
        self.fail(
          "\(invalidation.reason): flow \(key) is destroyed, and nothing that it is on changed")
      }
    case .refused: break
    }
    self.flows[index].isTouched(at: self.now)
    let told = self.flows[index].told
    guard self.flows[index].made == nil, told.status == .satisfied else { return }
    let network = self.kernel.network
    self.flows[index].begin(on: told, in: network)
    self.flows[index].isTouched(at: self.now)
    // A flow that drains at its registration lost its way before.
    if event.invalidation?.severity == .drain {
      self.flows[index].excuse("its way went before it began")
    }
    // It may have read a state that connd does not know yet; then connd's next messages concern it.
    let isPresent = told.agrees(with: self.flows[index].shown(in: network))
    if !isPresent || !self.kernel.isQuiet || !self.daemon.isOpen {
      self.flows[index].beganUnheard()
    }
  }

  // MARK: - Present state

  /// Checks the present state.
  func check() {
    guard self.broken == nil else { return }
    self.checkMemory()
    guard self.daemon.isOpen else {
      for index in self.flows.indices { self.flows[index].isUnread() }
      if self.daemon.store.snapshot.status.category != .unknown { self.fail("K8: not unknown") }
      let since = self.record.blindSince ?? self.now
      self.record.blindSince = since
      if since.duration(to: self.now) > .seconds(5) {
        self.fail("D8: the kernel is given up for good")
      }
      return
    }
    self.record.blindSince = nil
    guard self.kernel.isQuiet, !self.daemon.engine.flows.isBusy else { return }
    self.checkPublished()
    if let advised = self.record.advised, self.daemon.engine.deadline == nil,
      advised.since.duration(to: self.now) > .seconds(3),
      self.truth.category != advised.category
    {
      self.fail("I5: that the category was \(advised.category) is only advised for ever")
    }
    self.checkFlows()
    if self.daemon.deadline == nil, self.kernel.failsAfter == nil {
      self.record.isCalm = true
    }
  }

  /// Checks, once all messages were delivered, that connd publishes the present state (T1).
  private func checkPublished() {
    let status = self.daemon.store.snapshot.status
    for family in AddressFamily.allCases {
      guard let truth = self.truth.paths[family] else { continue }
      let published = status[family]
      if !published.agrees(with: truth) {
        self.fail("T1 T4: \(family) is published as \(published.summary), and is \(truth.summary)")
      }
    }
    if status.category != self.truth.category {
      self.fail("K1 K7: \(status.category) is published for \(self.truth.category)")
    }
    if let deadline = self.daemon.deadline, deadline <= self.now {
      self.fail("D7: a stale deadline")
    }
  }

  private func checkFlows() {
    guard !self.record.isRegistering else { return }
    for index in self.flows.indices where !self.flows[index].isOver {
      let key = self.flows[index].key
      let isSpared = self.daemon.engine.flows.entries[key]?.machine.isSpared ?? false
      self.flows[index].isRead(in: self.kernel.network, isSpared: isSpared, at: self.now)
      let flow = self.flows[index]
      let connection = flow.port.flatMap { self.kernel.connections[$0] }
      if let why = flow.whyDead(
        in: self.kernel.network, connection, isProof: !self.kernel.tracksConnections, at: self.now)
        ?? connection.flatMap({ flow.testimony.whyUnfound($0, at: self.now) })
      {
        self.fail("\(why): flow \(flow.key)")
      }
      let truth = flow.shown(in: self.kernel.network)
      if !flow.told.agrees(with: truth) {
        self.fail("D5: flow \(flow.key) was told \(flow.told.summary), and has \(truth.summary)")
      }
    }
  }

  private func checkMemory() {
    if self.daemon.store.past.count > Store.capacity { self.fail("D4: the history grows") }
    let living = self.flows.count { !$0.isOver }
    if !self.record.isRegistering, self.daemon.engine.flows.count != living {
      self.fail("D4: \(self.daemon.engine.flows.count) flows are guarded, \(living) are there")
    }
    let watched = self.daemon.engine.filterSpec
    if watched.gateways.count > 64 || watched.destinations.count > 32 {
      self.fail("D4: what the kernel is to tell of grows")
    }
  }
}

// MARK: - Words

extension KernelPath {
  var summary: String {
    let chain = self.chain.map { "\($0.name)#\($0.index)" }.joined(separator: ">")
    let source = self.source.map { " from \($0)" } ?? ""
    let gateway = self.gateway.map { " via \($0)" } ?? ""
    return "\(self.status)\(self.reason.map { " (\($0))" } ?? "") \(chain)\(source)\(gateway)"
  }
}

extension ConnectivityChange {
  fileprivate var summary: String {
    switch self {
    case .transition(let transition):
      "\(transition.from)>\(transition.to)\(transition.bounced ? " bounced" : "")"
        + ", \(transition.cause.change); \(transition.snapshot.status.summary)"
    case .path(let path):
      "path, \(path.cause.change); ipv4 \(path.snapshot.status.ipv4.summary); ipv6 \(path.snapshot.status.ipv6.summary)"
    case .invalidation(let told): "\(told.severity) \(told.reason) \(told.scope)"
    case .dns(let change): "dns, \(change.cause.change)"
    }
  }
}

extension ConnectivityStatus {
  fileprivate var summary: String { "ipv4 \(self.ipv4.summary); ipv6 \(self.ipv6.summary)" }
}

extension FlowEvent {
  fileprivate var summary: String {
    switch self {
    case .path(let path): path.summary
    case .betterPathGone(let path): "better path gone, \(path.summary)"
    case .invalidation(let invalidation):
      "\(invalidation.severity) \(invalidation.reason) (\(invalidation.cause.change)), \(invalidation.path?.summary ?? "no path")"
    case .refused(let refusal): "refused, \(refusal.message)"
    }
  }
}

extension Simulation {
  /// Notes only differences.
  private func noteNetwork(_ network: ModelNetwork) {
    let words = network.words
    let gone = self.record.words.filter { !words.contains($0) }.map { "-[\($0)]" }
    let new = words.filter { !self.record.words.contains($0) }.map { "+[\($0)]" }
    self.note("network \((gone + new).joined(separator: " ")): \(self.truth.category)")
    self.record.words = words
  }
}

extension ModelNetwork {
  fileprivate var words: [String] {
    let links = self.links.filter { $0.sort != .container }.map { link in
      let state = self.link(link.index).map { "\($0.state)" } ?? "?"
      return "\(link.name)#\(link.index) \(state) net\(link.network)"
    }
    let addresses = self.links.flatMap { link in
      link.addresses.map { "\($0.address) #\(link.index) flags \($0.flags.rawValue)" }
    }
    let neighbours = self.links.flatMap { link in
      link.neighbours.map { "\($0.key) is \($0.value) #\(link.index)" }.sorted()
    }
    let routes = self.routes.map { route in
      let legs = route.legs.map { leg in "#\(leg.link)\(leg.gateway.map { " via \($0)" } ?? "")" }
      let way = legs.isEmpty ? "refused" : legs.joined(separator: " and ")
      return "\(route.prefix) table \(route.table) metric \(route.metric) \(way)"
    }
    return links + addresses + neighbours + routes
      + self.rules.map { "\($0.selector) table \($0.table)" }
  }
}
