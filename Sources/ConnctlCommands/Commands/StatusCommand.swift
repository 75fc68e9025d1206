import ArgumentParser
import Connectivity
import ConnectivitySession
import ConnectivityProtocol

struct StatusCommand: ConnctlCommand {
  static let configuration = CommandConfiguration(
    commandName: "status", abstract: "Show the category, and the path of each family.")

  @OptionGroup var options: Options
  @ParentCommand var parent: Connctl

  func run(through dialler: any Dialler) async throws {
    let snapshot = try await Self.status(self.socket, through: dialler)
    if self.json {
      try self.console.print(.status(snapshot))
    } else {
      try self.console.print(self.console.style.status(snapshot, now: self.console.now()))
    }
  }

  /// The present status.
  static func status(_ socket: String, through dialler: any Dialler) async throws -> Snapshot {
    try await dialler.withConnd(at: socket) { connd in
      try Snapshot(try await connd.getStatus(Connectivity_V1_GetStatusRequest(), options: .prompt))
    }
  }
}
