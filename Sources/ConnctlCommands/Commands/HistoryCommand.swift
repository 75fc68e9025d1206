import ArgumentParser
import Connectivity
import ConnectivityMonitor
import ConnectivityProtocol

struct HistoryCommand: ConnctlCommand {
  static let configuration = CommandConfiguration.describing(
    "history", "List past changes with their consequences, oldest first.",
    usage: "connctl history [<options>]",
    discussion: """
      Each line is one change: a transition, another path, lost connections, or a cost override. --json prints \
      each invalidation by itself. On a terminal, output that is longer than the screen goes to \
      PAGER, or to less.
      """,
    examples: [
      "connctl history --since 1h", "connctl history --limit 20", "connctl history --graph",
      "connctl history --json | jq -r .event",
    ])

  @OptionGroup var options: Options
  @ParentCommand var parent: Connctl

  @Option(
    parsing: .unconditional,
    help: ArgumentHelp(
      "Show at most this many changes, the latest, with their invalidations.", valueName: "count"),
    transform: UInt32.reading)
  var limit: UInt32?

  @Option(
    parsing: .unconditional,
    help: ArgumentHelp("Show only the changes of this last time: 30m, 2h, 1d.", valueName: "time"),
    transform: Timeout.reading)
  var since: Timeout?

  @Flag(help: "Draw a timeline as wide as the terminal.")
  var graph = false

  @Flag(help: "Print long output without a pager.")
  var noPager = false

  func validate() throws {
    if self.graph, self.json { throw ValidationError("use either --graph or --json") }
    guard self.limit != 0 else { throw ValidationError("--limit must be at least 1") }
  }

  func run(through connector: Connector) async throws {
    let entries = try await self.answer(through: connector) {
      try await $0.history(limit: self.limit)
    }
    let now = self.console.now()
    let all = FoldedChange.groups(entries).filter { change in
      guard let since, let time = change.first?.time else { return true }
      return time.duration(to: now) <= since.duration
    }
    // connd applies the limit to transitions alone, so its response contains enough changes.
    let changes = all.suffix(self.limit.map(Int.init) ?? .max)
    if self.json {
      for entry in changes.joined() { try self.console.print(.history(entry)) }
    } else if changes.isEmpty {
      self.console.remark(
        "nothing has changed\(self.since.map { " in the last \($0.text)" } ?? "")")
    } else if self.graph {
      try self.draw(changes.flatMap { $0 })
    } else {
      try await self.console.printPaged(
        changes.flatMap { self.console.style.history($0) }, pages: !self.noPager)
    }
  }

  private func draw(_ entries: [ConnectivityChange]) throws {
    let style = self.console.style
    let timeline = Timeline(entries, until: self.console.now())
    let lines = timeline?.lines(
      columns: style.width == .max ? 80 : style.width, self.console.glyphs, style)
    try self.console.print(lines?.map { $0.text(color: style.color) } ?? [])
  }
}

extension Connectivity_V1_ListTransitionsResponse {
  /// Returns the changes in the order of publication.
  func changes() throws -> [ConnectivityChange] {
    let changes =
      try self.transitions.map {
        ConnectivityChange.transition(try ConnectivityChange.Transition($0))
      }
      + self.invalidations.map { .invalidation(try Invalidation($0)) }
      + self.paths.map { .path(try ConnectivityChange.PathChange($0)) }
    return changes.sorted { $0.generation < $1.generation }
  }
}
