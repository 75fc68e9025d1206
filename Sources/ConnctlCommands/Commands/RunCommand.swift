import ArgumentParser
import CLinux
import Connectivity
import ConnectivityMonitor
import Glibc
import Synchronization

struct RunCommand: ConnctlCommand {
  static let configuration = CommandConfiguration.describing(
    "run", "Run a command once conditions hold, or end its dead connections.",
    usage: """
      connctl run --when <condition>[,...] [--stop] [--] <command> ...
             connctl run --guard [--patience <time>] [--] <command> ...
      """,
    discussion: """
      \(Condition.help)

      connctl exits with the command's status. With --stop, the command and its children are \
      suspended (SIGSTOP) while the conditions do not hold, and continue (SIGCONT) when they do. \
      Open connections may time out while suspended.

      With --guard, dead TCP connections of the command and its children end, so that it gets an \
      error and can try again, instead of waiting for up to 15 minutes. Needs no privileges. A \
      connection that connd declares lost is held for two seconds. If its peer is still silent \
      then, it ends as soon as there is another path to its peer, or when --patience is over. A \
      better path alone ends nothing. Each end is one line on standard error. Accepted connections \
      and those of Multipath TCP go on.
      """,
    examples: [
      "connctl run --when online,not-metered -- ./backup",
      "connctl run --when wifi --stop -- rsync -a ~/photos nas:",
      "connctl run --guard -- wget https://example.com/image.iso",
    ],
    exit:
      "the command's; 127 if it does not exist, 126 if it cannot be executed. With --guard but without --when, the command runs also without connd, and so the statuses 69 and 77 are the command's."
  )

  @OptionGroup var options: PlainOptions
  @ParentCommand var parent: Connctl

  @Option(
    help: ArgumentHelp(
      "Comma-separated conditions, as for “connctl is”. All of them must hold.",
      valueName: "conditions"),
    completion: .conditions)
  var when: String?

  @Flag(help: "Suspend the command while the conditions do not hold.")
  var stop = false

  @Flag(help: "End dead connections of the command and its children.")
  var `guard` = false

  @OptionGroup var patience: PatienceOption

  @Argument(
    parsing: .captureForPassthrough,
    help: ArgumentHelp("The command to run, and its arguments.", valueName: "command"))
  var words: [String] = []

  /// The command. A `--` before it is optional.
  private var command: [String] {
    Array(self.words.first == "--" ? self.words.dropFirst() : self.words[...])
  }

  func validate() throws {
    // The parser takes this for the command to run.
    if let first = self.words.first, ["-h", "--help"].contains(first) {
      throw CleanExit.helpRequest(self)
    }
    if let when { _ = try Condition.readingAll(when) }
    guard self.when != nil || self.guard else {
      throw ValidationError("--when or --guard is required")
    }
    guard self.when != nil || !self.stop else { throw ValidationError("--stop needs --when") }
    if let first = self.words.first, first.hasPrefix("-"), first != "--" {
      let meant = ["--stop", "--socket", "--when", "--guard", "--patience"].map {
        String($0.dropFirst(2))
      }
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
    if self.when != nil {
      do {
        try await self.follow(through: connector) { if $0 { throw Holds() } }
      } catch is Holds {}
    }
    guard self.guard else { return try self.become() }
    throw await self.outcome(of: try self.start(), through: connector)
  }

  /// Starts the command as a child of connctl.
  private func start() throws -> ChildProcess {
    // Orphans of the command belong to it, too.
    if self.guard { clinux_adopt_orphans() }
    let child = try ChildProcess(self.command)
    child.takeTerminal()
    Forwarding.begin(to: child)
    return child
  }

  /// Returns the command's exit status when it has ended. Until then, its dead connections end if
  /// they are guarded.
  private func outcome(of child: ChildProcess, through connector: Connector) async -> ExitCode {
    guard self.guard else { return await child.end() }
    return await withTaskGroup { group in
      group.addTask { await self.endDeadConnections(through: connector) }
      let status = await child.end(reapingOrphans: true)
      group.cancelAll()
      let rest = ProcessTree.descendants(of: Int(getpid())).count
      if rest > 0 {
        self.console.remark(
          "the command has ended; connections of its \(rest) remaining processes do not end any more"
        )
      }
      return status
    }
  }

  private func endDeadConnections(through connector: Connector) async {
    let console = self.console
    let report: @Sendable (String) -> Void = { console.remark($0) }
    do {
      try await ReaperSession(
        self.patience.settings, ProcessEnder(report: report), socket: self.socket,
        through: connector, report: report
      ).run()
    } catch is CancellationError {
    } catch {
      // The command runs on without connd.
      if !Task.isCancelled { console.remark("\(error); no connection is ended") }
    }
  }

  /// Reports whether the conditions hold, at the start and after each change.
  private func follow(
    through connector: Connector, _ tell: @escaping @Sendable (Bool) throws -> Void
  ) async throws {
    let conditions = try Condition.readingAll(self.when ?? "")
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
            let child = try self.start()
            running.withLock { $0 = child }
            start.yield(child)
            start.finish()
          }
        }
        return ExitStatus.holds
      }
      group.addTask {
        for await child in started { return await self.outcome(of: child, through: connector) }
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
