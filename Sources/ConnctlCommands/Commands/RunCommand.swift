import ArgumentParser
import Connectivity
import ConnectivityMonitor
import Glibc
import Synchronization

struct RunCommand: ConnctlCommand {
  static let configuration = CommandConfiguration.describing(
    "run", "Run a command once conditions hold.",
    usage: "connctl run --when <condition>[,...] [--stop] [--] <command> ...",
    discussion: """
      \(Condition.help)

      connctl exits with the command's status. With --stop, the command and its children are \
      suspended (SIGSTOP) while the conditions do not hold, and continue (SIGCONT) when they do. \
      Open connections may time out while suspended.
      """,
    examples: [
      "connctl run --when online,not-metered -- ./backup",
      "connctl run --when wifi --stop -- rsync -a ~/photos nas:",
    ],
    exit: "the command's; 127 if it does not exist, 126 if it cannot be executed.")

  @OptionGroup var options: PlainOptions
  @ParentCommand var parent: Connctl

  @Option(
    help: ArgumentHelp(
      "Comma-separated conditions, as for “connctl is”. All of them must hold.",
      valueName: "conditions"),
    completion: .conditions)
  var when: String

  @Flag(help: "Suspend the command while the conditions do not hold.")
  var stop = false

  @Argument(
    parsing: .captureForPassthrough,
    help: ArgumentHelp("The command to run, and its arguments.", valueName: "command"))
  var words: [String] = []

  /// The command. A `--` before it is optional.
  private var command: [String] {
    Array(self.words.first == "--" ? self.words.dropFirst() : self.words[...])
  }

  func validate() throws {
    _ = try Condition.readingAll(self.when)
    if let first = self.words.first, first.hasPrefix("-"), first != "--" {
      let meant = ["--stop", "--socket", "--when"].map { String($0.dropFirst(2)) }
      let hint = String(first.drop { $0 == "-" }).nearest(of: meant).map { "--\($0)" }
      throw ValidationError(
        "unknown option '\(first)'\(hint.map { ". Did you mean '\($0)'?" } ?? ".") Before a command of that name, write --"
      )
    }
    guard !self.command.isEmpty else { throw ValidationError("a command is required") }
  }

  /// Thrown to stop following the status once the conditions hold.
  private struct Holds: Error {}

  func run(through connector: Connector) async throws {
    if self.stop { throw try await self.supervised(through: connector) }
    do {
      try await self.follow(through: connector) { if $0 { throw Holds() } }
    } catch is Holds {
      try self.become()
    }
  }

  /// Reports whether the conditions hold, at the start and after each change.
  private func follow(
    through connector: Connector, _ tell: @escaping @Sendable (Bool) throws -> Void
  ) async throws {
    let conditions = try Condition.readingAll(self.when)
    let reported = Mutex<Bool?>(nil)
    let follower = StatusFollower(
      socket: self.socket, through: connector, kinds: [.transition, .path])
    try await follower.run { event in
      let snapshot: ConnectivitySnapshot
      switch event {
      case .snapshot(let present), .gap(let present): snapshot = present
      case .change(let change):
        guard let present = change.snapshot else { return }
        snapshot = present
      case .disconnected(let error):
        if reported.withLock({ $0 }) == nil { throw error }
        // The command has ended, so connd's absence no longer matters.
        if Task.isCancelled { return }
        self.console.remark(ConndMessage.absent(error, left: "the command is left as it is"))
        return
      case .resumed:
        self.console.remark(ConndMessage.back())
        return
      }
      if reported.withLock({ $0 }) == nil { try await connector.checkNamespace(at: self.socket) }
      let failing = conditions.first { !$0.holds(for: snapshot.status) }
      let isNew = reported.withLock { reported in
        defer { reported = failing == nil }
        return reported != (failing == nil)
      }
      guard isNew else { return }
      if let failing {
        let obstacle = failing.obstacle(in: snapshot.status)
        let text = "waiting for “\(failing)” (\(obstacle.text))"
        if obstacle.needsDecision { self.console.remark(text) } else { self.console.hint(text) }
      }
      try tell(failing == nil)
    }
  }

  /// Replaces connctl's process by the command.
  private func become() throws {
    signal(SIGPIPE, SIG_DFL)
    let arguments = self.command.map { strdup($0) } + [nil]
    execvp(self.command.first ?? "", arguments)
    throw CommandFailure(self.command)
  }

  /// Runs the command as a child of connctl, and returns its exit status.
  private func supervised(through connector: Connector) async throws -> ExitCode {
    let (started, start) = AsyncStream.makeStream(of: ChildProcess.self)
    return try await withThrowingTaskGroup(of: ExitCode.self) { group in
      defer { group.cancelAll() }
      group.addTask {
        let running = Mutex<ChildProcess?>(nil)
        try await self.follow(through: connector) { holds in
          if let child = running.withLock({ $0 }) {
            child.signal(holds ? SIGCONT : SIGSTOP)
          } else if holds {
            let child = try ChildProcess(self.command)
            child.takeTerminal()
            Forwarding.begin(to: child)
            running.withLock { $0 = child }
            start.yield(child)
            start.finish()
          }
        }
        return ExitStatus.holds
      }
      group.addTask {
        for await child in started { return await child.end() }
        throw CancellationError()
      }
      return try await group.next() ?? ExitStatus.doesNotHold
    }
  }
}

/// Forwards signals that end connctl to the command, even if it is suspended.
private enum Forwarding {
  private static let group = Atomic<Int32>(0)

  static func begin(to child: ChildProcess) {
    Self.group.store(child.id, ordering: .relaxed)
    for number in [SIGTERM, SIGINT, SIGHUP] {
      signal(number) { number in
        let group = Forwarding.group.load(ordering: .relaxed)
        kill(-group, number)
        kill(-group, SIGCONT)
      }
    }
  }
}
