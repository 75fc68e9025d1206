import ArgumentParser
import Connectivity
import ConnectivitySession
import Synchronization

struct WaitCommand: ConnctlCommand {
  static let configuration = CommandConfiguration(
    commandName: "wait", abstract: "Wait until a condition holds.",
    usage: "connctl wait [<options>] <condition>",
    discussion: """
      \(Condition.help)

      With a timeout it waits for connd too; without one connd must be there at the start.
      """)

  @OptionGroup var options: Options
  @ParentCommand var parent: Connctl

  @Argument(
    help: "What is waited for.", completion: .list(Condition.allNames), transform: Condition.reading
  )
  var condition: Condition

  @OptionGroup var traffic: TrafficOptions

  @Option(
    parsing: .unconditional,
    help: ArgumentHelp(
      "The longest to wait: 500ms, 5s, 2m, 1h; a number alone is seconds.", valueName: "time"),
    transform: Timeout.reading)
  var timeout: Timeout?

  func run(through dialler: any Dialler) async throws {
    let requirement = self.traffic.requirement(self.condition)
    let wait = Wait(
      requirement: requirement, events: StatusFollower(socket: self.socket, through: dialler),
      isPatient: self.timeout != nil, say: self.console.hint)
    var snapshot = try await wait.run(timeout: self.timeout?.duration)
    // Without a word from connd when a short time is over, the answer is that of `is`, not that of a race.
    if snapshot == nil, let timeout, timeout.duration < Self.shortest {
      snapshot = try await self.ask(within: Self.shortest - timeout.duration, through: dialler)
    }
    guard let snapshot else { throw ConndError.failed("\(self.socket) is silent") }
    if !requirement.holds(for: snapshot.status), let timeout {
      self.console.remark(
        "“\(requirement)” does not hold after \(timeout.words): \(requirement.missing(in: snapshot.status))"
      )
    }
    try self.console.tell(requirement, of: snapshot, json: self.json)
  }
}

extension WaitCommand {
  /// So long connd has for its first word, however short the time.
  private static let shortest = Duration.seconds(1)

  private func ask(
    within time: Duration, through dialler: any Dialler
  ) async throws -> Snapshot? {
    let socket = self.socket
    return try await withThrowingTaskGroup(of: Snapshot?.self) { group in
      group.addTask { try await StatusCommand.status(socket, through: dialler) }
      group.addTask {
        try await Task.sleep(for: time)
        return nil
      }
      defer { group.cancelAll() }
      return try await group.next() ?? nil
    }
  }
}

/// Follows the status until a condition holds, or the time is over.
struct Wait: Sendable {
  let requirement: Requirement
  let events: StatusFollower
  /// connd need not be there at the start.
  let isPatient: Bool
  /// Tells somebody who looks on what it waits for.
  let say: @Sendable (String) -> Void

  /// The status in which the condition holds, or the last one known when the time was over; `nil` if none was.
  ///
  /// - Throws: ``ConndError`` where connd was not there, or refuses this user.
  func run(timeout: Duration?) async throws -> Snapshot? {
    let last = Last()
    return try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { try await self.follow(last) }
      if let timeout { group.addTask { try await Task.sleep(for: timeout) } }
      defer { group.cancelAll() }
      try await group.next()
      return try last.result.withLock { try $0?.get() }
    }
  }

  /// The condition holds: nothing more is to be followed.
  private struct Holds: Error {}

  private func follow(_ last: Last) async throws {
    do {
      try await self.events.run { try self.take($0, last) }
    } catch is Holds {}
  }

  private func take(_ event: StatusEvent, _ last: Last) throws {
    switch event {
    case .snapshot(let snapshot), .gap(let snapshot):
      try self.check(snapshot, last)
    case .change(let change):
      // An invalidation leaves the status as it is.
      if let snapshot = change.snapshot { try self.check(snapshot, last) }
    case .disconnected(let error):
      let isKnown = last.result.withLock { result in
        if case .success = result { return true }
        result = .failure(error)
        return false
      }
      // Only what may come by itself is waited for.
      guard case .notThere = error, isKnown || self.isPatient else { throw error }
      self.say(isKnown ? "connd went away; waiting for it" : "\(error): waiting for it")
    case .resumed:
      break
    }
  }

  private func check(_ snapshot: Snapshot, _ last: Last) throws {
    let isFirst = last.result.withLock { result in
      defer { result = .success(snapshot) }
      if case .success = result { return false }
      return true
    }
    if self.requirement.holds(for: snapshot.status) { throw Holds() }
    if isFirst {
      self.say(
        "waiting for “\(self.requirement)”: \(self.requirement.missing(in: snapshot.status))")
    }
  }

  private final class Last: Sendable {
    let result = Mutex<Result<Snapshot, ConndError>?>(nil)
  }
}
