import ArgumentParser
import Connectivity
import ConnectivityJSON
import ConnectivityMonitor
import Synchronization

struct WatchCommand: ConnctlCommand {
  static let configuration = CommandConfiguration(
    commandName: "watch", abstract: "Show the status, and then each change as it happens.",
    discussion:
      "Continues across restarts of connd. Messages about the connection go to standard error.")

  @OptionGroup var options: Options
  @ParentCommand var parent: Connctl

  // A negative number must be parsed as a number, not as an option.
  @Option(
    parsing: .unconditional,
    help: ArgumentHelp(
      "Start with the first change after this generation.", valueName: "generation"),
    transform: UInt64.reading)
  var since: UInt64?

  func run(through connector: Connector) async throws {
    self.console.endWithReader()
    let isFirst = Atomic(true)
    try await StatusFollower(socket: self.socket, through: connector, since: self.since).run {
      [self] event in
      if case .disconnected(let error) = event, isFirst.load(ordering: .relaxed) { throw error }
      isFirst.store(false, ordering: .relaxed)
      switch event {
      case .disconnected(let error):
        self.console.remark(ConndMessage.absent(error))
      case .resumed(let generation):
        self.console.remark(ConndMessage.back(after: generation))
      case .snapshot, .change, .gap:
        try self.show(event)
      }
    }
  }

  private func show(_ event: StatusEvent) throws {
    if !self.json {
      try self.console.print(self.console.style.event(event, now: self.console.now()))
    } else if let object = JSON.event(event) {
      try self.console.print(object)
    }
  }
}
