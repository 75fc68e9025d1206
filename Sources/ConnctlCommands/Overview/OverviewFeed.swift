import Connectivity
import ConnectivityMonitor
import ConnectivityProtocol
import GRPCCore
import Glibc
import Synchronization

/// Maintains an ``Overview`` from data of connd and the kernel. Safe to use from any thread.
final class OverviewFeed: Sendable {
  private let socket: String
  private let connector: Connector
  private let state: Mutex<Overview>
  /// The number of counter readings since the last query or event of connd.
  private let readings = Atomic(0)
  /// The number of counter readings after which connd is queried, too.
  private static let readingsPerQuestion = 3

  var overview: Overview { self.state.withLock { $0 } }

  /// Queries all data.
  ///
  /// - Throws: ``ConndError`` if connd is not running or refuses this user.
  init(socket: String, through connector: Connector) async throws {
    (self.socket, self.connector) = (socket, connector)
    let (status, answers) = try await connector.withServices(at: socket) { connd in
      (
        try await connd.call(ConndServices.Connectivity.GetStatus.self),
        try await Answers(of: connd)
      )
    }
    var overview = Overview(try ConnectivitySnapshot(status))
    if let own = ProcessNamespace.own, status.networkNamespace != 0, status.networkNamespace != own
    {
      overview.isElsewhere = true
    }
    try overview.take(answers)
    self.state = Mutex(overview)
  }

  /// The data that connd does not push.
  struct Answers {
    var links: [Connectivity_V1_Link]
    var status: Connectivity_V1_Status
    var history: [ConnectivityChange]
    var clients: [Connectivity_V1_Client]?

    init(of connd: ConndServices) async throws {
      self.links = try await connd.links()
      self.status = try await connd.call(ConndServices.Connectivity.GetStatus.self)
      self.history = try await connd.history(limit: 32)
      do {
        self.clients = try await connd.clients()
      } catch let error as RPCError where error.code == .unimplemented {
        // An older connd does not list its clients.
      }
    }
  }

  /// Queries the data that connd does not push. If connd does not answer, nothing changes.
  func ask() async throws {
    let answers: Answers
    do {
      answers = try await self.connector.withServices(at: self.socket) {
        try await Answers(of: $0)
      }
    } catch is CancellationError {
      throw CancellationError()
    } catch {
      // The task that follows connd reports its absence.
      return
    }
    try self.state.withLock { try $0.take(answers) }
  }

  func take(_ event: StatusEvent) {
    self.state.withLock { $0.take(event) }
    self.readings.store(Self.readingsPerQuestion, ordering: .relaxed)
  }

  /// Reads the kernel's counters.
  ///
  /// - Parameter isFresh: Whether to discard earlier counts, because they give no current rate.
  /// - Returns: Whether it is time to query connd, too.
  func readCounters(isFresh: Bool) -> Bool {
    if !self.state.withLock({ $0.isElsewhere }), let octets = LinkCounters.read() {
      self.state.withLock {
        if isFresh { $0.rates.forget() }
        $0.rates.take(octets, at: .now)
      }
    }
    let count = self.readings.add(1, ordering: .relaxed).newValue
    guard isFresh || count >= Self.readingsPerQuestion else { return false }
    self.readings.store(0, ordering: .relaxed)
    return true
  }
}

extension Overview {
  /// The maximum number of process names, which is more than fit on a screen.
  private static let maxNames = 256

  fileprivate mutating func take(_ answers: OverviewFeed.Answers) throws {
    self.links = answers.links
    self.correct(try ConnectivitySnapshot(answers.status))
    self.note(answers.history)
    // This view is a client itself, and is not shown.
    self.clients = answers.clients?.filter { $0.process != UInt32(getpid()) }
    for user in Set((self.clients ?? []).map(\.user)) where self.userNames[user] == nil {
      self.userNames[user] = Console.current.userName(user)
    }
    let processes = Set((answers.clients ?? []).map(\.process)).subtracting([0])
    self.processNames = processes.prefix(Self.maxNames).reduce(into: [:]) { names, process in
      names[process] = ProcessName.read(process)
    }
  }
}
