import Connectivity
import ConnectivityRules
import Netlink

@testable import ConndServer

/// A kernel from which something is withheld, and that knows what it was asked for.
final class MutantKernel: ReopenableKernel {
  private let kernel: any ReopenableKernel
  private let store: Store
  private let mutation: Mutation?
  private var batches: [Daemon.Batch] = []
  private var batch: (events: [KernelEvent], before: ConnectivitySnapshot)?
  private var wasOpened = false
  private var unheard: UnheardLinks?
  /// The sockets' last reports.
  private var reports: [Destination: SocketReport] = [:]

  init(_ kernel: any ReopenableKernel, _ store: Store, _ mutation: Mutation?) {
    self.kernel = kernel
    self.store = store
    self.mutation = mutation
  }

  func reopen(_ watched: FilterSpec) throws(KernelUnavailable) {
    if self.mutation == .staysBlind, self.wasOpened { throw .notOpen }
    self.wasOpened = true
    try self.kernel.reopen(self.watched(watched))
  }

  /// The kernel's messages were processed.
  func endBatch() {
    guard let batch = self.batch else { return }
    self.batches.append(
      .init(events: batch.events, before: batch.before, after: self.store.snapshot))
    self.batch = nil
  }

  func takeBatches() -> [Daemon.Batch] {
    defer { self.batches = [] }
    return self.batches
  }

  func drain(into events: inout [KernelEvent]) throws(KernelUnavailable) -> Bool {
    // After a loss the kernel is read once more, with the messages in between: both are one batch
    // then.
    let isOpen = self.batch.map { $0.before.generation == self.store.snapshot.generation } ?? false
    if !isOpen { self.endBatch() }
    var drained: [KernelEvent] = []
    let mayHaveMore = try self.kernel.drain(into: &drained)
    events += self.mutation.events(drained)
    if !drained.isEmpty {
      let before = self.batch?.before ?? self.store.snapshot
      self.batch = ((self.batch?.events ?? []) + drained, before)
    }
    return mayHaveMore
  }

  func ask(_ question: KernelQuestion) throws(KernelUnavailable) -> KernelReply {
    self.mutated(question, try self.kernel.ask(question))
  }

  private func mutated(_ question: KernelQuestion, _ reply: KernelReply) -> KernelReply {
    switch (self.mutation, question, reply) {
    case (.ignoresCarrier, _, .link(var facts?)) where facts.link.flags.contains(.up):
      facts.link.flags.insert(.lowerUp)
      facts.link.carrier = true
      facts.link.operationalState = .up
      return .link(facts)
    case (.keepsLostLink, .link(let index), .link(let facts)):
      if let facts, facts.link.state == .up { return reply }
      return .link(
        LinkFacts(Link(index: index, name: "gone", flags: [.up, .lowerUp], carrier: true)))
    case (.keepsLostAddress, _, .entry(let entry?)) where entry.kind != .local:
      return .entry(RouteEntry(entry.route, kind: .local, outLink: 1))
    case (.ignoresNeighbours, _, .neighbour): return .neighbour(nil)
    case (.trustsEachLookup, .translation, _): return .flag(false)
    case (.trustsNoLookup, .translation, _): return .flag(true)
    case (_, .sockets(let connections), .sockets(let reports)):
      let mutated = zip(connections, reports).map { connection, report in
        let mutated = self.mutation.report(report, after: self.reports[connection])
        self.reports[connection] = mutated
        return mutated
      }
      return .sockets(mutated)
    default: return reply
    }
  }

  var hasMessages: Bool { self.kernel.hasMessages }
  func takeExpiry() -> Duration? { self.kernel.takeExpiry() }

  func waitForChanges() throws(KernelUnavailable) {
    if self.mutation != .readsTooEarly { try self.kernel.waitForChanges() }
  }

  func watch(_ watched: FilterSpec) throws(KernelUnavailable) {
    try self.kernel.watch(self.watched(watched))
  }

  func watched(_ watched: FilterSpec) -> FilterSpec {
    var watched = watched
    switch self.mutation {
    case .filtersTooMuch: watched.destinations = []
    case .ignoresLateLinks:
      self.unheard = (watched.unheard ?? self.unheard).map { UnheardLinks(above: $0.above) }
      watched.unheard = self.unheard
    case .ignoresEarlyLinks: watched.unheard?.above = 0
    default: break
    }
    return watched
  }
}
