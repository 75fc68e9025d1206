import ArgumentParser
import ConnectivityJSON
import ConnectivityMonitor

struct RecordCommand: ConnctlCommand {
  static let configuration = CommandConfiguration.describing(
    "record", "Record the kernel's messages, for a replay on any machine.",
    usage: "connctl record [--for <time>] [--json] <file>",
    discussion: """
      Runs a separate connd, which needs no privileges, until Ctrl-C or for the time of --for. It \
      starts with the running connd's configuration and history, and with your overrides. “connd \
      --replay <file>” prints what “connctl watch --json” would have printed, on any machine.

      The recording contains addresses, links and Wi-Fi names. To share it with others, use “connctl \
      report”.
      """,
    examples: ["connctl record --for 1h trouble.recording", "connd --replay trouble.recording"],
    exit: "1 if the file exists or cannot be written.")

  @OptionGroup var options: Options
  @ParentCommand var parent: Connctl

  @Option(
    name: .customLong("for"), parsing: .unconditional,
    help: ArgumentHelp("How long to record: 90s, 10m, 1h.", valueName: "time"),
    transform: Timeout.reading)
  var limit: Timeout?

  @Argument(help: "A file that does not exist yet.", completion: .file())
  var file: String

  func validate() throws {
    guard self.file != "" else { throw ValidationError("the file name is empty") }
    try NewFile.checkName(self.file)
  }

  func run(through connector: Connector) async throws {
    let file = try NewFile(self.file)
    let directory: PrivateDirectory
    let outcome: (events: Int, isComplete: Bool)
    do {
      directory = try PrivateDirectory()
      defer { directory.remove() }
      let start = try await StartingState.current(
        at: self.socket, in: directory, through: connector)
      if let remark = start.remark { self.console.remark(remark) }
      outcome = try await RecordingSession(
        file: file.path, limit: self.limit?.duration, directory: directory, start: start,
        console: self.console
      ).run(through: connector)
    } catch {
      if file.size == 0 { file.remove() }
      throw error
    }
    let events = outcome.events
    try self.show(
      [
        "file": .string(self.file), "bytes": .number(UInt64(file.size)),
        "events": .number(UInt64(events)),
      ],
      [
        "\(self.file): \(events) \(events == 1 ? "event" : "events"), \(file.size) bytes",
        "  connd --replay \(self.file)                    prints the events",
        "  connctl report --recording \(self.file) REPORT  makes a report to share",
      ])
    guard outcome.isComplete else {
      self.console.remark("\(self.file) has only the beginning: there was no room for more")
      throw ExitStatus.doesNotHold
    }
  }
}
