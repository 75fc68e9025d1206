import Connectivity
import ConnectivityMonitor
import ConnectivityProtocol
import Glibc
import Synchronization

/// Follows connd, and has lost connections ended.
///
/// It lists connections after each change that connd reports, and while some are held. connd guards
/// what was listed. Without news nothing runs. Without connd no connection is ended.
///
/// Implements rules R1, R2 and R6.
final class ReaperSession: Sendable {
  private let socket: String
  private let connector: Connector
  private let ender: any ConnectionEnder
  private let report: @Sendable (String) -> Void
  private let reaper: Mutex<Reaper>
  private let flows: FlowGuard
  /// Whether the next failure to list connections is reported: only the first one after a success,
  /// and none while connd is gone.
  private let reportsFailure = Atomic(false)
  /// Each element is a reason to list the connections.
  private let turns = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
  private let jobs = AsyncStream.makeStream(of: Job.self)

  private enum Job: Sendable {
    case ask([ReapableConnection])
    case listAt(Reaper.Instant)
  }

  /// - Parameter report: Receives each line for the user.
  init(
    _ settings: Reaper.Settings, _ ender: any ConnectionEnder, socket: String,
    through connector: Connector, report: @escaping @Sendable (String) -> Void
  ) {
    (self.socket, self.connector, self.ender, self.report) = (socket, connector, ender, report)
    self.reaper = Mutex(Reaper(settings))
    self.flows = FlowGuard(socket: socket, through: connector)
  }

  /// Runs until the task is cancelled.
  ///
  /// - Throws: ``ConndError`` if connd refuses this user, `ForeignNamespace`, `CancellationError`.
  func run() async throws {
    try await withThrowingDiscardingTaskGroup { group in
      group.addTask { try await self.follow() }
      group.addTask { try await self.listen() }
      group.addTask {
        for await _ in self.turns.stream { try await self.list() }
      }
      // An error of the others cancels only tasks of the group.
      group.addTask { try await self.runJobs() }
    }
  }

  private func runJobs() async throws {
    try await withThrowingDiscardingTaskGroup { group in
      for await job in self.jobs.stream {
        switch job {
        case .ask(let connections):
          group.addTask { await self.ender.ask(connections, on: self.connector.thread) }
        case .listAt(let time):
          group.addTask {
            // `Task.sleep` would start libdispatch, which then wakes connctl once a second (D7).
            // This timer counts the machine's sleep, too.
            while case let left = SuspendingClock.now.duration(to: time), left > .zero {
              try await self.connector.thread.sleep(for: left)
            }
            self.turns.continuation.yield()
          }
        }
      }
    }
  }

  /// Lists the connections after each change of the network.
  private func follow() async throws {
    let follower = StatusFollower(socket: self.socket, through: self.connector)
    let wasThere = Atomic(false)
    try await follower.run { event in
      switch event {
      case .disconnected(let error):
        if error.isFinal { throw error }
        self.reportsFailure.store(false, ordering: .relaxed)
        self.reaper.withLock { $0.lost() }
        self.report(
          ConndMessage.absent(
            error, wasThere: wasThere.load(ordering: .relaxed), left: "no connection is ended"))
      case .resumed:
        self.reportsFailure.store(true, ordering: .relaxed)
        self.report(ConndMessage.back())
        self.turns.continuation.yield()
      case .snapshot, .gap, .change:
        let isKnown = wasThere.exchange(true, ordering: .relaxed)
        // A program may have no connection yet that would show it.
        if !isKnown { try await self.connector.checkNamespace(at: self.socket) }
        if !isKnown { self.reportsFailure.store(true, ordering: .relaxed) }
        self.turns.continuation.yield()
      }
    }
  }

  private func listen() async throws {
    while let event = await self.flows.next() {
      let now = SuspendingClock.now
      switch event {
      case .flow(let id, _, let event):
        self.perform { $0.received(event, id: id, at: now) }
      case .question(let id): self.perform { $0.asked(id: id) }
      case .absent(.elsewhere(let foreign)): throw foreign
      case .absent(.disconnected), .resumed: break
      }
    }
  }

  private func list() async throws {
    let now = SuspendingClock.now
    let peers = self.reaper.withLock { $0.peers(at: now) }
    do {
      let (connections, ways) = try await self.connector.withServices(at: self.socket) { connd in
        let connections = try await connd.connections()
        var ways: [IPAddress: KernelPath] = [:]
        for peer in peers { ways[peer] = try await connd.path(to: peer) }
        return (connections, ways)
      }
      let selected = self.ender.select(connections.compactMap { ReapableConnection($0) })
      self.perform { $0.listed(selected, ways: ways, at: now) }
      self.reportsFailure.store(true, ordering: .relaxed)
    } catch let error as ConndError {
      // If connd is gone, `follow` reports that, and lists again when it is back.
      self.perform { $0.unlisted(at: SuspendingClock.now) }
      if self.reportsFailure.exchange(false, ordering: .relaxed) {
        self.report("connd cannot list connections (\(error)); no connection is ended")
      }
    }
  }

  private func perform(_ body: (inout Reaper) -> [Reaper.Action]) {
    let (actions, deadline) = self.reaper.withLock { reaper in
      let before = reaper.deadline
      let actions = body(&reaper)
      return (actions, reaper.deadline == before ? nil : reaper.deadline)
    }
    var (asked, lost): ([ReapableConnection], [(ReapableConnection, Reaper.Loss)]) = ([], [])
    for action in actions {
      switch action {
      case .guardFlow(var flow, let id, let path):
        flow.question = self.ender.question
        self.flows.add(flow, id: id, madeOn: path)
      case .release(let id): self.flows.remove(id)
      case .ask(let connection): asked.append(connection)
      case .end(let connection, let loss): lost.append((connection, loss))
      }
    }
    self.ender.end(lost)
    if !asked.isEmpty { self.jobs.continuation.yield(.ask(asked)) }
    if let deadline { self.jobs.continuation.yield(.listAt(deadline)) }
  }
}
