import ArgumentParser
import Connectivity
import ConnectivityClient
import ConnectivityProtocol

struct HistoryCommand: ConnctlCommand {
  static let configuration = CommandConfiguration(
    commandName: "history",
    abstract: "List the transitions and invalidations with their causes, the oldest first.")

  @OptionGroup var options: Options
  @ParentCommand var parent: Connctl

  @Option(
    help: ArgumentHelp(
      "At most so many transitions, the latest, and the invalidations since.", valueName: "count"))
  var limit: UInt32?

  func validate() throws {
    guard self.limit != 0 else { throw ValidationError("--limit is at least 1") }
  }

  func run() async throws {
    var request = Connectivity_V1_ListTransitionsRequest()
    if let limit = self.limit { request.limit = limit }
    let response = try await withConnd(at: self.socket) { [request] connd in
      try await connd.listTransitions(request, options: .prompt)
    }
    for entry in try HistoryEntry.all(response) {
      if self.json {
        try self.console.print(.history(entry))
      } else {
        try self.console.print(self.console.style.history(entry))
      }
    }
  }
}

/// What the history holds: the changes that concern channels.
enum HistoryEntry: Hashable, Sendable {
  case transition(Transition)
  case invalidation(Invalidation)

  /// All of a response, in the order in which they were published.
  static func all(_ response: Connectivity_V1_ListTransitionsResponse) throws -> [HistoryEntry] {
    let entries =
      try response.transitions.map { Self.transition(try Transition($0)) }
      + response.invalidations.map { Self.invalidation(try Invalidation($0)) }
    return entries.sorted { $0.generation < $1.generation }
  }

  private var generation: UInt64 {
    switch self {
    case .transition(let transition): transition.snapshot.generation
    case .invalidation(let invalidation): invalidation.generation
    }
  }
}
