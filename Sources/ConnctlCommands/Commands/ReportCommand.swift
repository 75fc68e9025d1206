import ArgumentParser
import ConnectivityJSON
import ConnectivitySession

struct ReportCommand: ConnctlCommand {
  static let configuration = CommandConfiguration(
    commandName: "report",
    abstract: "Make one file for a bug report, which names nothing of yours.",
    usage: "connctl report [--for <time> | --recording <recording>] [--json] <file>",
    discussion: """
      Records as “connctl record” does, or takes what that has recorded, and writes a file whose beginning is text to \
      be read and whose end “connd --replay” replays. IP and hardware addresses, Wi-Fi names, host and domain names, \
      and names of links that somebody chose are replaced: the same by the same throughout, by a key that is kept \
      nowhere. What connd does not know how to replace is left out. Times, ports, user numbers and the kernel's \
      version stay.

      Have the trouble happen while it records.
      """)

  @OptionGroup var options: Options
  @ParentCommand var parent: Connctl

  @Option(
    name: .customLong("for"), parsing: .unconditional,
    help: ArgumentHelp(
      "How long to record, unless said 5s; Ctrl-C ends it earlier.", valueName: "time"),
    transform: Timeout.reading)
  var limit: Timeout?

  @Option(
    help: ArgumentHelp("What was recorded before.", valueName: "recording"), completion: .file())
  var recording: String?

  @Argument(help: "A file that does not exist yet.", completion: .file())
  var file: String

  func validate() throws {
    guard self.file != "", self.recording != "" else {
      throw ValidationError("the file needs a name")
    }
    guard self.recording == nil || self.limit == nil else {
      throw ValidationError("--for is how long to record, and --recording is recorded already")
    }
  }

  func run(through dialler: any Dialler) async throws {
    let file = try NewFile(self.file)
    let directory: PrivateDirectory
    do {
      directory = try PrivateDirectory()
      defer { directory.remove() }
      let recording = self.recording ?? "\(directory.path)/connd.recording"
      if self.recording == nil {
        let outcome = try await RecordingSession(
          file: recording, limit: self.limit?.duration ?? .seconds(5), directory: directory,
          console: self.console
        ).run(through: dialler)
        if !outcome.isComplete {
          self.console.remark(
            "there was no room for all that happened: the report has the beginning")
        }
      }
      // connd reports its own errors.
      let status = try await ConndProgram.start(
        ["--replay", recording, "--report", file.path], self.console
      ).end()
      guard status.isSuccess else { throw ExitStatus.doesNotHold }
    } catch {
      file.remove()
      throw error
    }
    if self.json {
      try self.console.print(
        ["file": .string(self.file), "bytes": .number(UInt64(file.size))])
    } else {
      try self.console.print([
        "\(self.file): \(file.size) bytes",
        "  Its beginning is text: look at it before you give it away.",
      ])
    }
  }
}
