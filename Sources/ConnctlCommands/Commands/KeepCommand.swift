import ArgumentParser
import Connectivity
import ConnectivityMonitor
import Glibc
import Synchronization

struct KeepCommand: ConnctlCommand {
  static let configuration = CommandConfiguration.describing(
    "keep", "Keep systemd units running while conditions hold.",
    usage: "connctl keep [<options>] <condition>[,...]=<unit> ...",
    discussion: """
      \(Condition.help)

      A unit is started (systemctl start) when all of its conditions hold, and stopped when they \
      have not held for the grace period. Failed requests to systemd are retried. connctl continues \
      across restarts of connd, and leaves units as they are in the meantime.
      """,
    examples: [
      "connctl keep --user online,not-metered=syncthing.service",
      "connctl keep wired=backup.timer online=mirror.service",
    ])

  @OptionGroup var options: PlainOptions
  @ParentCommand var parent: Connctl

  @Flag(help: "Control units of the user's systemd instance.")
  var user = false

  @Option(
    parsing: .unconditional,
    help: ArgumentHelp(
      "How long the conditions may fail before a unit is stopped (default: 5s).",
      valueName: "time"),
    transform: Timeout.reading)
  var grace = Timeout(duration: .seconds(5), text: "5s")

  @Argument(
    help: "Comma-separated conditions as for “connctl is”, =, and the unit.",
    completion: .conditions)
  var rules: [String]

  private func parsed() throws -> [UnitSupervisor.Rule] {
    try self.rules.map(UnitSupervisor.Rule.init(reading:))
  }

  func validate() throws {
    let units = try self.parsed().map(\.unit)
    for (place, unit) in units.enumerated() where units[..<place].contains(unit) {
      throw ValidationError("duplicate unit “\(unit)”")
    }
  }

  private enum Input {
    case status(ConnectivityStatus)
    case time
  }

  func run(through connector: Connector) async throws {
    let rules = try self.parsed()
    // While a unit is being started, only the latest inputs matter.
    let (inputs, input) = AsyncStream.makeStream(
      of: Input.self, bufferingPolicy: .bufferingNewest(8))
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { try await self.follow(through: connector) { input.yield(.status($0)) } }
      group.addTask {
        try await self.keep(rules, inputs, on: connector.thread) { input.yield(.time) }
      }
      defer { group.cancelAll() }
      try await group.next()
    }
  }

  private func follow(
    through connector: Connector, _ tell: @escaping @Sendable (ConnectivityStatus) -> Void
  ) async throws {
    let follower = StatusFollower(
      socket: self.socket, through: connector, kinds: [.transition, .path])
    let wasThere = Atomic(false)
    try await follower.run { event in
      if case .snapshot = event, !wasThere.load(ordering: .relaxed) {
        try await connector.checkNamespace(at: self.socket)
      }
      switch event {
      case .snapshot(let snapshot), .gap(let snapshot): tell(snapshot.status)
      case .change(let change): if let snapshot = change.snapshot { tell(snapshot.status) }
      case .disconnected(let error):
        if error.isFinal { throw error }
        self.console.remark(
          ConndMessage.absent(
            error, wasThere: wasThere.load(ordering: .relaxed),
            left: "the units are left as they are"))
        return
      case .resumed: self.console.remark(ConndMessage.back())
      }
      wasThere.store(true, ordering: .relaxed)
    }
  }

  private func keep(
    _ rules: [UnitSupervisor.Rule], _ inputs: AsyncStream<Input>, on thread: ClientThread,
    wake: @escaping @Sendable () -> Void
  ) async throws {
    try await withThrowingDiscardingTaskGroup { group in
      var units = UnitSupervisor(rules, grace: self.grace.duration)
      var alarm: SuspendingClock.Instant?
      for await input in inputs {
        let now = SuspendingClock.now
        let actions =
          switch input {
          case .status(let status): units.note(status, at: now)
          case .time: units.elapse(at: now)
          }
        for action in actions {
          units.note(action, isDone: try await self.perform(action), at: SuspendingClock.now)
        }
        guard let due = units.due, due != alarm else { continue }
        alarm = due
        group.addTask {
          // Timers of the reactor go on while the machine sleeps, and grace periods do not.
          while case let left = due - SuspendingClock.now, left > .zero {
            guard (try? await thread.sleep(for: left)) != nil else { return }
          }
          wake()
        }
      }
      group.cancelAll()
    }
  }

  /// Runs systemctl, which does not wait for the unit to start or stop.
  ///
  /// - Throws: ``OutputError`` if systemd does not run this machine, so that all attempts fail.
  private func perform(_ action: UnitSupervisor.Action) async throws -> Bool {
    let verb = if case .start = action { "start" } else { "stop" }
    let command =
      ["systemctl"] + (self.user ? ["--user"] : []) + ["--no-block", verb, "--", action.unit]
    do {
      let status = try await ChildProcess(command).end()
      if status.rawValue == 1, access("/run/systemd/system", F_OK) != 0 {
        throw OutputError(description: "systemd does not run here, and keep needs it")
      }
      self.console.remark(
        status.isSuccess
          ? "\(action.unit): \(verb) requested"
          : "\(action.unit): \(verb) failed: systemctl exited with \(status.rawValue)")
      return status.isSuccess
    } catch let failure as CommandFailure {
      self.console.remark("\(failure)")
      return false
    }
  }
}
