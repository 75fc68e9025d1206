import ArgumentParser
import Connectivity
import ConnectivityClient
import ConnectivityProtocol

struct HistoryCommand: ConnctlCommand {
  static let configuration = CommandConfiguration(
    commandName: "history", abstract: "List the transitions and their causes, the oldest first.")

  @OptionGroup var options: Options
  @ParentCommand var parent: Connctl

  @Option(help: ArgumentHelp("At most so many, the latest.", valueName: "count"))
  var limit: UInt32?

  func validate() throws {
    guard self.limit != 0 else { throw ValidationError("--limit is at least 1") }
  }

  func run() async throws {
    var request = Connectivity_V1_ListTransitionsRequest()
    if let limit = self.limit { request.limit = limit }
    let transitions = try await withConnd(at: self.socket) { [request] connd in
      try await connd.listTransitions(request, options: .prompt).transitions
    }
    for transition in transitions {
      let transition = try Transition(transition)
      if self.json {
        try self.console.print(.history(transition))
      } else {
        try self.console.print(self.console.style.history(transition))
      }
    }
  }
}
