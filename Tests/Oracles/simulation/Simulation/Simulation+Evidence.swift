import Connectivity
import ConnectivityRules

@testable import ConndServer

// Queries to sockets, and their consequences (E1 to E3).
extension Simulation {
  /// A flow with working traffic ends only for a reason that no socket refutes.
  ///
  /// - Parameter path: The path of new connections.
  func checkEnd(of flow: GuardedFlow, _ reason: Invalidation.Reason, _ path: KernelPath) {
    guard let port = flow.port, let connection = self.kernel.connections[port] else { return }
    self.kernel.close(port)
    switch reason {
    case .categoryChanged, .policy, .resumed: return
    case .sourceAddressLost, .interfaceLost, .networkChanged, .betterPath:
      let isCertain =
        flow.testimony.goneAt == self.now || self.record.longSleepAt == self.now
        || flow.isForbidden(path) || flow.isForbidden(in: self.kernel.network)
      if connection.isAlive(at: self.now), !isCertain {
        self.fail(
          "E1: flow \(flow.key) is destroyed (\(reason)), and its bytes come and go")
      }
      if self.kernel.tracksConnections, reason != .sourceAddressLost, !isCertain,
        connection.isIdleAndCarried(at: self.now)
      {
        self.fail("E1: flow \(flow.key) is destroyed (\(reason)), and its peer is there")
      }
    case .silent:
      if connection.isAlive(at: self.now) || connection.isAnswered(at: self.now)
        || connection.isIdleAndCarried(isQueued: true, at: self.now)
      {
        self.fail("E2: flow \(flow.key) is destroyed as silent, and its peer answers")
      }
      if connection.isWaiting(at: self.now) {
        self.fail("E2: flow \(flow.key) is destroyed as silent, and nothing was sent since")
      }
      let earliest = connection.lastNews(at: self.now).advanced(by: .milliseconds(-2500))
      if flow.testimony.touchedAt.map({ $0 < earliest }) ?? true {
        self.fail("E2: flow \(flow.key) is destroyed as silent, and no change touched it")
      }
    }
  }

  /// Notes connd's input, and checks how often it queried sockets (E3).
  func lookAtSockets(after batches: [Daemon.Batch]) {
    if !batches.isEmpty || !self.daemon.isOpen { self.record.lastReasonToAsk = self.now }
    if !self.daemon.isOpen {
      for index in self.flows.indices { self.flows[index].isTouched(at: self.now) }
    }
    if batches.contains(where: { $0.events.contains(where: \.mayCostAPath) }) {
      for index in self.flows.indices where !self.flows[index].isOver {
        guard let port = self.flows[index].port, let connection = self.kernel.connections[port]
        else { continue }
        let events = batches.flatMap(\.events)
        // Without proof, any change may touch it (E0).
        if self.kernel.tracksConnections || events.contains(where: self.flows[index].mayBeTouched) {
          self.flows[index].isTouched(at: self.now)
        }
        guard self.flows[index].isSpared || events.contains(where: self.flows[index].isTouched)
        else { continue }
        self.flows[index].isAskedAbout(connection, at: self.now)
      }
    }
    let asked = self.kernel.takeAskedSockets()
    // A silent connection is compared with the newest one to the same host (E2).
    let mayBeContrast = asked.contains { $0.1.timeouts >= 2 }
    for (port, report) in asked {
      self.note("socket \(port): silent for \(report.dataSilence), \(report.timeouts) timeouts")
      self.noteQuestion(to: port, mayBeContrast: mayBeContrast)
    }
  }

  private func noteQuestion(to port: UInt16, mayBeContrast: Bool) {
    let second = self.record.questions[port, default: []].filter {
      $0.duration(to: self.now) < .seconds(1)
    }
    self.record.questions[port] = second + [self.now]
    if second.count > 40 { self.fail("E3: the socket of port \(port) is asked again and again") }
    guard let connection = self.kernel.connections[port] else { return }
    guard connection.isAlive(at: self.now) || !connection.kind.isActive else {
      self.record.soundSockets.remove(port)
      return
    }
    let wasSound = !self.record.soundSockets.insert(port).inserted
    // The first query comes a second after the change, like the end of a grace period.
    // The questions to the peers of idle flows take some seconds.
    let end: Duration = connection.kind.question != .none ? .seconds(34) : .seconds(3)
    let isIdle =
      self.record.lastReasonToAsk.duration(to: self.now)
      > end + connection.kind.roundTrip * 2
    if isIdle, wasSound, !mayBeContrast {
      self.fail("E3: the socket of port \(port) is asked without a change")
    }
  }
}

extension KernelEvent {
  /// Whether it may have cost a path.
  fileprivate var mayCostAPath: Bool {
    switch self {
    case .neighbour(let neighbour): neighbour.isFailed
    case .bridgeEntry, .wireless, .malformed: false
    default: true
    }
  }
}

extension GuardedFlow {
  /// Whether connd must ask the flow's socket after this event: it names a link of its path, or
  /// messages were lost.
  fileprivate func isTouched(by event: KernelEvent) -> Bool {
    switch event {
    case .link(let link), .linkRemoved(let link):
      self.told.chain.contains { $0.index == link.index }
    case .overrun: true
    default: false
    }
  }

  /// Whether connd may ask it.
  fileprivate func mayBeTouched(by event: KernelEvent) -> Bool {
    switch event {
    case .link(let link), .linkRemoved(let link): self.uses(link.index)
    case .address(let address), .addressRemoved(let address):
      address.address == self.question.source || address.address == self.question.address
    case .route(let change, _), .routeRemoved(let change):
      change.route.prefix.contains(self.question.address) && change.outLink.map(self.uses) ?? true
    case .neighbour(let neighbour): self.uses(neighbour.link)
    case .bridgeEntry, .wireless, .signal, .malformed: false
    case .rule, .ruleRemoved, .setting, .nexthop, .nexthopRemoved, .overrun: true
    }
  }

  private func uses(_ link: UInt32) -> Bool {
    (self.told.chain + (self.made?.path.chain ?? [])).contains { $0.index == link }
      || self.made == nil
  }
}
