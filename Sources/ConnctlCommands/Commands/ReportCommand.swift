import ArgumentParser
import ConnectivityJSON
import ConnectivityMonitor
import ConnectivityProtobuf
import ConnectivityProtocol

struct ReportCommand: ConnctlCommand {
  static let configuration = CommandConfiguration.describing(
    "report", "Make an anonymous file for a bug report.",
    usage: "connctl report [--for <time> | --recording <recording>] [--json] <file>",
    discussion: """
      Records like “connctl record”, or takes an existing recording. Writes a file that begins with \
      the output of status, explain, links, why and history, and ends with data for “connd --replay”. \
      Replaces IP and MAC addresses, Wi-Fi \
      names, host and domain names, and chosen link names: each one consistently, with a key that \
      is not stored. Omits everything that connd cannot replace. Keeps times, ports, user numbers \
      and the kernel's version.

      Reproduce the problem while it records.
      """,
    examples: [
      "connctl report --for 1m trouble.report",
      "connctl report --recording trouble.recording trouble.report",
    ],
    exit: "1 if the file exists or cannot be written.")

  @OptionGroup var options: Options
  @ParentCommand var parent: Connctl

  @Option(
    name: .customLong("for"), parsing: .unconditional,
    help: ArgumentHelp(
      "How long to record (default: 5s). Ctrl-C ends it earlier.", valueName: "time"),
    transform: Timeout.reading)
  var limit: Timeout?

  @Option(
    help: ArgumentHelp("An existing recording.", valueName: "recording"), completion: .file())
  var recording: String?

  @Argument(help: "A file that does not exist yet.", completion: .file())
  var file: String

  func validate() throws {
    guard self.file != "", self.recording != "" else {
      throw ValidationError("the file name is empty")
    }
    try NewFile.checkName(self.file)
    guard self.recording == nil || self.limit == nil else {
      throw ValidationError("--for cannot be used with --recording")
    }
  }

  func run(through connector: Connector) async throws {
    let file = try NewFile(self.file)
    do {
      let directory = try PrivateDirectory()
      defer { directory.remove() }
      let start = try await self.record(in: directory, through: connector)
      let diagnosis = await self.diagnosis(start, through: connector)
      try file.write(try await self.report(in: directory, start, diagnosis))
    } catch {
      file.remove()
      throw error
    }
    try self.show(
      ["file": .string(self.file), "bytes": .number(UInt64(file.size))],
      [
        "\(self.file): \(file.size) bytes",
        "  It begins with text: read that before you share the file.",
      ])
  }

  private func recording(in directory: PrivateDirectory) -> String {
    self.recording ?? "\(directory.path)/connd.recording"
  }

  /// Makes a recording, unless one exists.
  ///
  /// - Returns: The state in which the recording began, or `nil` for an existing recording.
  private func record(
    in directory: PrivateDirectory, through connector: Connector
  ) async throws -> StartingState? {
    guard self.recording == nil else { return nil }
    let start = try await StartingState.current(at: self.socket, in: directory, through: connector)
    if let remark = start.remark { self.console.remark(remark) }
    let outcome = try await RecordingSession(
      file: self.recording(in: directory), limit: self.limit?.duration ?? .seconds(5),
      directory: directory, start: start, console: self.console
    ).run(through: connector)
    if !outcome.isComplete {
      self.console.remark("there was no room for all events: the report has only the beginning")
    }
    return start
  }

  /// Returns the running connd's diagnosis after the recording, or `nil` for an existing recording,
  /// or if connd cannot be asked.
  private func diagnosis(
    _ start: StartingState?, through connector: Connector
  ) async -> Connectivity_V1_Diagnosis? {
    guard case .running = start else { return nil }
    return try? await connector.withServices(at: self.socket) { connd in
      try await connd.call(ConndServices.Diagnostics.Diagnose.self)
    }
  }

  /// Returns the report of the recording.
  private func report(
    in directory: PrivateDirectory, _ start: StartingState?,
    _ diagnosis: Connectivity_V1_Diagnosis?
  ) async throws -> [UInt8] {
    let (report, answers) = ("\(directory.path)/report", "\(directory.path)/answers")
    // connd reports its own errors.
    let status = try await ConndProgram.start(
      [
        "--replay", self.recording(in: directory), "--report", report, "--answers", answers,
      ], self.console
    ).end()
    guard status.isSuccess else { throw ExitStatus.doesNotHold }
    let text = try Style.report.answers(
      Connectivity_V1_ReplayedAnswers(serializedBytes: try NewFile.contents(of: answers)), start,
      diagnosis)
    return try NewFile.contents(of: report).inserting(text)
  }
}
