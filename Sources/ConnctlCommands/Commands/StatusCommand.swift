import ArgumentParser
import Connectivity
import ConnectivityJSON
import ConnectivityMonitor
import ConnectivityProtocol

struct StatusCommand: ConnctlCommand {
  static let configuration = CommandConfiguration.describing(
    "status", "Show the category, and the path of each family.",
    discussion: FormatOption.discussion,
    examples: [
      "connctl status", "connctl status --json | jq -r .category",
      "connctl status --format '{category} {interface}'",
    ],
    exit: "0 for every category. To test it, use “connctl is online”.")

  @OptionGroup var options: Options
  @ParentCommand var parent: Connctl
  @OptionGroup var format: FormatOption

  func validate() throws {
    if self.format.format != nil, self.json {
      throw ValidationError("use either --format or --json")
    }
    if let field = self.format.format?.fieldOfChange {
      throw ValidationError("{\(field.rawValue)} is a field of changes, for connctl watch")
    }
  }

  func run(through connector: Connector) async throws {
    guard let template = self.format.format else {
      return try await Self.show(self.socket, json: self.json, through: connector)
    }
    let (snapshot, foreign) = try await Self.status(self.socket, through: connector)
    if let foreign { self.console.remark(foreign.remark) }
    try self.console.write(template.text(snapshot, .snapshot(snapshot)) + "\n")
  }

  static func show(_ socket: String, json: Bool, through connector: Connector) async throws {
    let (snapshot, foreign) = try await Self.status(socket, through: connector)
    let console = Console.current
    if let foreign { console.remark(foreign.remark) }
    if json {
      try console.print(.status(snapshot))
    } else {
      try console.print(console.style.status(snapshot, now: console.now()))
    }
  }

  /// Returns the current status, and connd's network namespace if it is not this process's.
  static func status(
    _ socket: String, through connector: Connector
  ) async throws -> (ConnectivitySnapshot, ForeignNamespace?) {
    try await connector.withServices(at: socket) { connd in
      let status = try await connd.call(ConndServices.Connectivity.GetStatus.self)
      return (try ConnectivitySnapshot(status), ForeignNamespace(of: status.networkNamespace))
    }
  }
}
