import ArgumentParser
import Connectivity
import ConnectivityJSON
import ConnectivityMonitor
import Glibc
import Synchronization

struct OnCommand: ConnctlCommand {
  static let configuration = CommandConfiguration.describing(
    "on", "Run a command after each change of a kind.",
    usage: "connctl on [<options>] <kind> -- <command> ...",
    discussion: """
      The command gets CONND_EVENT, CONND_GENERATION, CONND_CATEGORY, CONND_FROM and \
      CONND_INTERFACE in its environment, and on standard input the line that “connctl watch \
      --json” prints. If changes were missed, it runs once with CONND_EVENT=gap.

      Only one command runs at a time; later changes wait. connctl continues across restarts of \
      connd.
      """,
    examples: [
      "connctl on transition -- ./hook", "connctl on --now transition -- ./hook",
      "connctl on dns -- systemctl reload unbound",
    ],
    exit: "127 if the command does not exist, 126 if it cannot be executed.")

  @OptionGroup var options: PlainOptions
  @ParentCommand var parent: Connctl

  @Argument(
    help: "The kind of change: transition, path, invalidation or dns.",
    completion: .list(["transition", "path", "invalidation", "dns"]), transform: Self.kind)
  var kind: StatusEvent.Kind

  @Option(
    parsing: .unconditional,
    help: ArgumentHelp(
      "The time limit for a command (default: 90s). Then it gets SIGTERM, and SIGKILL after 5s.",
      valueName: "time"),
    transform: Timeout.reading)
  var timeout = Timeout(duration: .seconds(90), text: "90s")

  @Flag(help: "Also run the command at the start, with CONND_EVENT=snapshot.")
  var now = false

  @Argument(parsing: .postTerminator, help: "The command to run, after --.")
  var command: [String] = []

  func validate() throws {
    guard !self.command.isEmpty else { throw ValidationError("a command is required after --") }
    guard self.timeout.duration > .zero else {
      throw ValidationError("--timeout must be greater than 0")
    }
  }

  private static func kind(_ text: String) throws -> StatusEvent.Kind {
    switch text {
    case "transition": .transition
    case "path": .path
    case "invalidation": .invalidation
    case "dns": .dns
    default: throw ValidationError("expected transition, path, invalidation or dns")
    }
  }

  func run(through connector: Connector) async throws {
    try ChildProcess.check(self.command)
    let last = Mutex<ConnectivitySnapshot?>(nil)
    // Invalidations and DNS changes do not contain the status, so transitions and paths are
    // followed, too.
    let follower = StatusFollower(
      socket: self.socket, through: connector, kinds: [self.kind, .transition, .path])
    try await follower.run { event in
      let before = last.withLock { $0 }
      if case .snapshot = event, before == nil { await self.remarkNamespace(through: connector) }
      switch event {
      case .disconnected(let error):
        if before == nil { throw error }
        self.console.remark(ConndMessage.absent(error))
      case .resumed:
        self.console.remark(ConndMessage.back())
      case .snapshot(let snapshot):
        last.withLock { $0 = snapshot }
        if self.now, before == nil { try await self.perform(event, snapshot, on: connector.thread) }
      case .gap(let snapshot):
        last.withLock { $0 = snapshot }
        try await self.perform(event, snapshot, on: connector.thread)
      case .change(let change):
        if let snapshot = change.snapshot { last.withLock { $0 = snapshot } }
        if change.isOf(self.kind) {
          try await self.perform(event, change.snapshot ?? before, on: connector.thread)
        }
      }
    }
  }

  /// Runs the command until it ends.
  private func perform(
    _ event: StatusEvent, _ snapshot: ConnectivitySnapshot?, on thread: ClientThread
  ) async throws {
    guard let object = JSON.event(event) else { return }
    do {
      let child = try ChildProcess(
        self.command, variables: Self.variables(event, snapshot), input: "\(object)\n")
      let status = await self.end(of: child, on: thread)
      if !status.isSuccess {
        self.console.remark("“\(self.command[0])” exited with \(status.rawValue)")
      }
    } catch let failure as CommandFailure {
      // The command existed at the start and may exist the next time.
      self.console.remark("\(failure)")
    }
  }

  private func end(of child: ChildProcess, on thread: ClientThread) async -> ExitCode {
    await withTaskGroup(of: ExitCode?.self) { group in
      group.addTask { await child.end() }
      group.addTask {
        guard (try? await thread.sleep(for: self.timeout.duration)) != nil else { return nil }
        self.console.remark(
          "“\(self.command[0])” exceeded \(self.timeout.text) and is terminated")
        child.signal(SIGTERM)
        guard (try? await thread.sleep(for: .seconds(5))) != nil else { return nil }
        child.signal(SIGKILL)
        return nil
      }
      for await status in group {
        if let status {
          group.cancelAll()
          return status
        }
      }
      return ExitStatus.doesNotHold
    }
  }

  /// Returns the command's environment variables. A variable is empty if the event has no value for
  /// it.
  static func variables(
    _ event: StatusEvent, _ snapshot: ConnectivitySnapshot?
  ) -> [(name: String, value: String)] {
    let change = event.change
    let generation = change?.generation ?? snapshot?.generation ?? 0
    let interface =
      if let invalidation = change?.invalidation { invalidation.scope.interface } else {
        snapshot?.status.interface
      }
    return [
      ("CONND_EVENT", event.name ?? ""), ("CONND_GENERATION", String(generation)),
      ("CONND_CATEGORY", snapshot?.status.category.rawValue ?? ""),
      ("CONND_FROM", change?.transition?.from.rawValue ?? ""),
      ("CONND_INTERFACE", interface ?? ""),
    ]
  }
}

extension ConnectivityChange {
  fileprivate func isOf(_ kind: StatusEvent.Kind) -> Bool {
    switch self {
    case .transition: kind == .transition
    case .path: kind == .path
    case .invalidation: kind == .invalidation
    case .dns: kind == .dns
    }
  }
}
