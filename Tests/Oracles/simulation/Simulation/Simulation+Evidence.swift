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
    case .silent:
      if connection.isAlive(at: self.now) || connection.isAnswered(at: self.now) {
        self.fail("E2: flow \(flow.key) is destroyed as silent, and its peer answers")
      }
      if connection.isWaiting(at: self.now) {
        self.fail("E2: flow \(flow.key) is destroyed as silent, and nothing was sent since")
      }
    }
  }

  /// Notes connd's input, and checks how often it queried sockets (E3).
  func lookAtSockets(after batches: [Daemon.Batch]) {
    if !batches.isEmpty || !self.daemon.isOpen { self.record.lastReasonToAsk = self.now }
    if batches.contains(where: { $0.events.contains(where: \.mayCostAPath) }) {
      for index in self.flows.indices where !self.flows[index].isOver {
        guard let port = self.flows[index].port, let connection = self.kernel.connections[port]
        else { continue }
        self.flows[index].isAskedAbout(connection, at: self.now)
      }
    }
    for (port, report) in self.kernel.takeAskedSockets() {
      self.note("socket \(port): silent for \(report.dataSilence), \(report.timeouts) timeouts")
      self.noteQuestion(to: port)
    }
  }

  private func noteQuestion(to port: UInt16) {
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
    let isIdle = self.record.lastReasonToAsk.duration(to: self.now) > .milliseconds(2500)
    if isIdle, wasSound {
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
