import Connectivity
import ConnectivityRules
import Netlink

@testable import ConndServer

/// A kernel from which something is withheld, and that knows what it was asked for.
final class MutantKernel: ForwardingKernel {
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

  func link(_ index: UInt32) throws(KernelUnavailable) -> LinkFacts? {
    var facts = try self.kernel.link(index)
    switch self.mutation {
    case .ignoresCarrier:
      guard facts?.link.flags.contains(.up) == true else { break }
      facts?.link.flags.insert(.lowerUp)
      facts?.link.carrier = true
      facts?.link.operationalState = .up
    case .keepsLostLink:
      let some = Link(index: index, name: "gone", flags: [.up, .lowerUp], carrier: true)
      return facts.flatMap { $0.link.state == .up ? $0 : nil } ?? LinkFacts(some)
    default: break
    }
    return facts
  }

  func entry(for destination: Destination) throws(KernelUnavailable) -> RouteEntry? {
    let entry = try self.kernel.entry(for: destination)
    guard self.mutation == .keepsLostAddress, entry?.kind != .local, let entry else { return entry }
    return RouteEntry(entry.route, kind: .local, outLink: 1)
  }

  func ask<Answer>(
    _ question: (any Kernel) throws(KernelUnavailable) -> Answer
  ) throws(KernelUnavailable) -> Answer {
    try question(self.kernel)
  }

  var hasMessages: Bool { self.kernel.hasMessages }
  func takeExpiry() -> Duration? { self.kernel.takeExpiry() }

  func waitForChanges() throws(KernelUnavailable) {
    if self.mutation != .readsTooEarly { try self.kernel.waitForChanges() }
  }

  func socketReports(on connections: [Destination]) -> [SocketReport?] {
    zip(connections, self.kernel.socketReports(on: connections)).map { connection, report in
      let mutated = self.mutation.report(report, after: self.reports[connection])
      self.reports[connection] = mutated
      return mutated
    }
  }

  func translatesConnections() -> Bool {
    switch self.mutation {
    case .trustsEachLookup: false
    case .trustsNoLookup: true
    default: self.kernel.translatesConnections()
    }
  }

  func neighbour(
    _ address: IPAddress, on link: UInt32
  ) throws(KernelUnavailable) -> Neighbour? {
    let neighbour = try self.kernel.neighbour(address, on: link)
    return self.mutation == .ignoresNeighbours ? nil : neighbour
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
