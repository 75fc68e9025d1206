import ArgumentParser
import Connectivity
import ConnectivityProtocol
import ConnectivityMonitor

struct HistoryCommand: ConnctlCommand {
  static let configuration = CommandConfiguration(
    commandName: "history",
    abstract:
      "List transitions, invalidations and cost overrides, oldest first.")

  @OptionGroup var options: Options
  @ParentCommand var parent: Connctl

  @Option(
    parsing: .unconditional,
    help: ArgumentHelp(
      "Show at most this many changes, the latest, with their invalidations.", valueName: "count"),
    transform: UInt32.reading)
  var limit: UInt32?

  @Flag(help: "Draw a timeline as wide as the terminal.")
  var graph = false

  func validate() throws {
    if self.graph, self.json { throw ValidationError("use either --graph or --json") }
    guard self.limit != 0 else { throw ValidationError("--limit must be at least 1") }
  }

  func run(through connector: Connector) async throws {
    let entries = try await connector.withServices(at: self.socket) { connd in
      try await connd.history(limit: self.limit)
    }
    // connd limits the number of transitions, so its response always contains enough changes.
    let changes = HistoryEntry.changes(entries).suffix(self.limit.map(Int.init) ?? .max)
    if self.graph { return try self.draw(changes.flatMap { $0 }) }
    for change in changes {
      if self.json {
        for entry in change { try self.console.print(.history(entry)) }
      } else {
        try self.console.print(self.console.style.history(change))
      }
    }
  }

  private func draw(_ entries: [HistoryEntry]) throws {
    let style = self.console.style
    let timeline = Timeline(entries, until: self.console.now())
    let lines = timeline?.lines(
      columns: style.width == .max ? 80 : style.width, self.console.glyphs, style)
    try self.console.print(
      lines?.map { $0.text(color: style.color) } ?? ["nothing has changed yet"])
  }
}

/// An entry of the history: a change that concerns channels.
enum HistoryEntry: Hashable, Sendable {
  case transition(Transition)
  case invalidation(Invalidation)
  /// A change of the path's cost by an override.
  case override(PathChange)

  /// Groups entries by change. A group is a transition with its invalidations, or invalidations
  /// without a transition.
  static func changes(_ entries: [HistoryEntry]) -> [[HistoryEntry]] {
    entries.reduce(into: []) { changes, entry in
      if case .invalidation = entry, let first = changes.last?.first, first.time == entry.time {
        changes[changes.count - 1].append(entry)
      } else {
        changes.append([entry])
      }
    }
  }

  /// Returns the entries of a response in the order of publication.
  static func all(_ response: Connectivity_V1_ListTransitionsResponse) throws -> [HistoryEntry] {
    let entries =
      try response.transitions.map { Self.transition(try Transition($0)) }
      + response.invalidations.map { Self.invalidation(try Invalidation($0)) }
      + response.choices.map { Self.override(try PathChange($0)) }
    return entries.sorted { $0.generation < $1.generation }
  }

  var time: Timestamp { self.change.time }

  var change: Change {
    switch self {
    case .transition(let transition): .transition(transition)
    case .invalidation(let invalidation): .invalidation(invalidation)
    case .override(let change): .path(change)
    }
  }

  var cause: Cause {
    switch self {
    case .transition(let transition): transition.cause
    case .invalidation(let invalidation): invalidation.cause
    case .override(let change): change.cause
    }
  }

  private var generation: UInt64 { self.change.generation }
}
