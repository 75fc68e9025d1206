import ArgumentParser
import Connectivity
import ConnectivityJSON
import ConnectivityMonitor
import Synchronization

struct WatchCommand: ConnctlCommand {
  static let configuration = CommandConfiguration.describing(
    "watch", "Show the status, and then each change as it happens.",
    usage: "connctl watch [<options>]",
    discussion: """
      Continues across restarts of connd. Messages about the connection go to standard error.

      \(FormatOption.discussion) If all fields are of the status, a line appears only when it \
      differs from the last one, and the category is unknown while connd is away.
      """,
    examples: [
      "connctl watch", "connctl watch --json | jq --unbuffered -c .event",
      "connctl watch --format '{category} {interface} {metered}'",
    ],
    exit: "0 when the reader closes the output.")

  @OptionGroup var options: Options
  @ParentCommand var parent: Connctl

  // A negative number must be parsed as a number, not as an option.
  @Option(
    parsing: .unconditional,
    help: ArgumentHelp(
      "Start with the first change after this generation.", valueName: "generation"),
    transform: UInt64.reading)
  var since: UInt64?

  @OptionGroup var format: FormatOption

  func validate() throws {
    if self.format.format != nil, self.json {
      throw ValidationError("use either --format or --json")
    }
  }

  /// The events and lines shown so far.
  private struct Shown {
    var isFirst = true
    var snapshot: ConnectivitySnapshot?
    var line: String?
  }

  func run(through connector: Connector) async throws {
    self.console.endWithReader()
    let shown = Mutex(Shown())
    try await StatusFollower(socket: self.socket, through: connector, since: self.since).run {
      [self] event in
      if case .disconnected(let error) = event, shown.withLock({ $0.isFirst }) { throw error }
      let isFirst = shown.withLock { shown in
        defer { shown.isFirst = false }
        return shown.isFirst
      }
      if isFirst { await self.remarkNamespace(through: connector) }
      switch event {
      case .disconnected(let error):
        self.console.remark(ConndMessage.absent(error))
      case .resumed(let generation):
        self.console.remark(ConndMessage.back(after: generation))
      case .snapshot, .change, .gap:
        if self.format.format == nil {
          try self.show(
            .event(event), self.console.style.event(event, now: self.console.now()))
        }
      }
      if let template = self.format.format,
        let line = shown.withLock({ Self.line(template, event, &$0) })
      {
        try self.console.write(line + "\n")
      }
    }
  }

  /// Returns the formatted line for an event, or `nil` if there is nothing new to show.
  private static func line(
    _ template: Template, _ event: StatusEvent, _ shown: inout Shown
  ) -> String? {
    switch event {
    case .snapshot(let snapshot), .gap(let snapshot): shown.snapshot = snapshot
    case .change(let change):
      if let snapshot = change.snapshot {
        shown.snapshot = snapshot
      } else {
        shown.snapshot?.apply(change)
      }
    case .disconnected, .resumed: if template.isOfEvents { return nil }
    }
    // A stream that resumes begins with a change, which may have no status.
    guard var snapshot = shown.snapshot else { return nil }
    // A bar must not go on showing what may be wrong by now.
    if case .disconnected = event {
      snapshot.status = ConnectivityStatus(ipv4: .unknown, ipv6: .unknown, preferred: .ipv4)
      snapshot.dns = nil
    }
    let line = template.text(snapshot, event)
    guard template.isOfEvents || line != shown.line else { return nil }
    shown.line = line
    return line
  }
}
