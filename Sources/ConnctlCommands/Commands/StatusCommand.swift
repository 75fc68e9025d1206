import ArgumentParser
import Connectivity
import ConnectivityJSON
import ConnectivityProtocol
import ConnectivityMonitor

struct StatusCommand: ConnctlCommand {
  static let configuration = CommandConfiguration(
    commandName: "status", abstract: "Show the category, and the path of each family.",
    discussion: "Exit status: 0 for every category. To test it, use “connctl is online”.")

  @OptionGroup var options: Options
  @ParentCommand var parent: Connctl

  func run(through connector: Connector) async throws {
    try await Self.show(self.socket, json: self.json, through: connector)
  }

  static func show(_ socket: String, json: Bool, through connector: Connector) async throws {
    let snapshot = try await Self.status(socket, through: connector)
    let console = Console.current
    if json {
      try console.print(.status(snapshot))
    } else {
      try console.print(console.style.status(snapshot, now: console.now()))
    }
  }

  /// Returns the current status.
  static func status(_ socket: String, through connector: Connector) async throws -> Snapshot {
    try await connector.withConnd(at: socket) { connd in
      try Snapshot(try await connd.getStatus(Connectivity_V1_GetStatusRequest(), options: .prompt))
    }
  }
}
