import ArgumentParser
import Connectivity
import ConnectivityMonitor
import Synchronization

struct WaitCommand: ConnctlCommand {
  static let configuration = CommandConfiguration.describing(
    "wait", "Wait until a condition holds.", usage: "connctl wait [<options>] <condition>",
    discussion: """
      \(Condition.help)

      With a timeout, it waits for connd, too. Without one, connd must be running at the start.
      """,
    examples: [
      "connctl wait online --timeout 30s || exit 1", "connctl wait not-metered && ./backup",
    ],
    exit: "0 as soon as the condition holds, 1 if it does not hold in time.")

  @OptionGroup var options: Options
  @ParentCommand var parent: Connctl

  @Argument(help: "The condition.", completion: .list(Condition.allNames))
  var condition: String

  @OptionGroup var traffic: TrafficOptions

  @Option(
    parsing: .unconditional,
    help: ArgumentHelp(
      "How long to wait: \(Duration.notation).", valueName: "time"),
    transform: Timeout.reading)
  var timeout: Timeout?

  func validate() throws { _ = try Condition.reading(self.condition) }

  func run(through connector: Connector) async throws {
    let wait = Wait(
      requirement: self.traffic.requirement(try Condition.reading(self.condition)),
      events: StatusFollower(socket: self.socket, through: connector),
      isPatient: self.timeout != nil, say: self.console.hint,
      warn: self.timeout == nil ? self.console.remark : self.console.hint,
      checkNamespace: { [socket = self.socket] in
        try await connector.checkNamespace(at: socket)
      },
      search: { [socket = self.socket] in await connector.link(named: $0, at: socket) })
    guard let snapshot = try await wait.run(timeout: self.timeout?.duration) else {
      throw ConndError.failed("\(self.socket) accepts connections but does not respond")
    }
    let requirement = await wait.requirement.resolved(for: snapshot.status, wait.search)
    if !requirement.holds(for: snapshot.status), let timeout {
      self.console.remark(
        "“\(requirement)” does not hold after \(timeout.text) (\(requirement.obstacle(in: snapshot.status).text))"
      )
    }
    try self.console.tell(requirement, of: snapshot, json: self.json)
  }
}

/// Follows the status until a condition holds or the time limit has passed.
struct Wait: Sendable {
  let requirement: Requirement
  let events: StatusFollower
  /// Whether connd may be absent at the start.
  let isPatient: Bool
  /// Informs an interactive user what the command is waiting for.
  let say: @Sendable (String) -> Void
  /// Says why the condition cannot become true by itself.
  var warn: @Sendable (String) -> Void = { _ in }
  /// Throws if connd's answers are about another network namespace.
  var checkNamespace: @Sendable () async throws -> Void = {}
  /// Finds the link with a name or alternative name. A link may get a new name at any time.
  var search: @Sendable (_ link: String) async -> LinkSearch = { _ in .unknown }

  /// The minimum time for connd's first answer, because on a loaded machine a shorter timeout does
  /// not mean that connd hangs.
  private static let shortest = Duration.seconds(5)

  /// Returns the status in which the condition holds. If the time limit passes first, returns the
  /// last known status, or `nil` if connd has not answered.
  ///
  /// - Throws: ``ConndError`` if connd is not running or refuses this user.
  func run(timeout: Duration?) async throws -> ConnectivitySnapshot? {
    let last = Last()
    return try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { try await self.follow(last) }
      if let timeout { group.addTask { try await self.sleep(for: timeout, last) } }
      defer { group.cancelAll() }
      try await group.next()
      return try last.result.withLock { try $0?.get() }
    }
  }

  private func sleep(for timeout: Duration, _ last: Last) async throws {
    try await Task.sleep(for: timeout)
    guard timeout < Self.shortest else { return }
    await withTaskGroup { group in
      group.addTask { for await _ in last.firstWord {} }
      group.addTask { try? await Task.sleep(for: Self.shortest - timeout) }
      defer { group.cancelAll() }
      await group.next()
    }
  }

  /// Thrown to stop following the status once the condition holds.
  private struct Holds: Error {}

  private func follow(_ last: Last) async throws {
    do {
      try await self.events.run { try await self.take($0, last) }
    } catch is Holds {}
  }

  private func take(_ event: StatusEvent, _ last: Last) async throws {
    switch event {
    case .snapshot(let snapshot), .gap(let snapshot):
      try await self.check(snapshot, last)
    case .change(let change):
      // An invalidation leaves the status unchanged.
      if let snapshot = change.snapshot { try await self.check(snapshot, last) }
    case .disconnected(let error):
      let isKnown = last.isKnown
      if !isKnown { last.set(.failure(error)) }
      // connd may start later. Other errors do not go away by themselves.
      guard error.code == .notAvailable, isKnown || self.isPatient else { throw error }
      self.say(ConndMessage.absent(error, wasThere: isKnown))
    case .resumed:
      self.say(ConndMessage.back())
    }
  }

  private func check(_ snapshot: ConnectivitySnapshot, _ last: Last) async throws {
    if !last.isKnown { try await self.checkNamespace() }
    let requirement = await self.requirement.resolved(for: snapshot.status, self.search)
    let holds = requirement.holds(for: snapshot.status)
    if !holds, !last.isKnown {
      let obstacle = requirement.obstacle(in: snapshot.status)
      let text = "waiting for “\(requirement)” (\(obstacle.text))"
      if obstacle.needsDecision { self.warn(text) } else { self.say(text) }
    }
    last.set(.success(snapshot))
    if holds { throw Holds() }
  }

  /// The last answer of connd. Only the task that follows the events sets it.
  private final class Last: Sendable {
    let result = Mutex<Result<ConnectivitySnapshot, ConndError>?>(nil)
    /// Finishes, without an element, when the first result is set.
    let firstWord: AsyncStream<Never>
    private let spoken: AsyncStream<Never>.Continuation

    init() { (self.firstWord, self.spoken) = AsyncStream.makeStream() }

    var isKnown: Bool {
      self.result.withLock { result in
        if case .success = result { true } else { false }
      }
    }

    func set(_ word: Result<ConnectivitySnapshot, ConndError>) {
      self.result.withLock { $0 = word }
      self.spoken.finish()
    }
  }
}
