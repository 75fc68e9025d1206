import ArgumentParser
import ConnectivityJSON
import ConnectivitySession

struct RecordCommand: ConnctlCommand {
  static let configuration = CommandConfiguration(
    commandName: "record", abstract: "Record what the kernel tells, to be replayed elsewhere.",
    usage: "connctl record [--for <time>] [--json] <file>",
    discussion: """
      Runs a connd of its own, beside the system's, which needs no privilege; it ends by Ctrl-C, or after the time of \
      --for. That one reads the system's configuration, and knows nothing of what users have said of costs. “connd --replay <file>” prints what “connctl watch --json” would have printed, on any machine.

      The recording names addresses, links and Wi-Fi networks. What others are to see is made by “connctl report”.
      """)

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
    guard self.file != "" else { throw ValidationError("the file needs a name") }
  }

  func run(through dialler: any Dialler) async throws {
    let file = try NewFile(self.file)
    let directory: PrivateDirectory
    let outcome: (events: Int, isComplete: Bool)
    do {
      directory = try PrivateDirectory()
      defer { directory.remove() }
      outcome = try await RecordingSession(
        file: file.path, limit: self.limit?.duration, directory: directory, console: self.console
      ).run(through: dialler)
    } catch {
      if file.size == 0 { file.remove() }
      throw error
    }
    let events = outcome.events
    if self.json {
      try self.console.print(
        [
          "file": .string(self.file), "bytes": .number(UInt64(file.size)),
          "events": .number(UInt64(events)),
        ])
    } else {
      try self.console.print([
        "\(self.file): \(events) \(events == 1 ? "event" : "events"), \(file.size) bytes",
        "  connd --replay \(self.file)                    prints the events",
        "  connctl report --recording \(self.file) REPORT  makes a report of it for others",
      ])
    }
    guard outcome.isComplete else {
      self.console.remark("\(self.file) holds the beginning alone: there was no room for more")
      throw ExitStatus.doesNotHold
    }
  }
}
