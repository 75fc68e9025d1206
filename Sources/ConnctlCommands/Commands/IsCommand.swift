import ArgumentParser
import Connectivity
import ConnectivityJSON
import ConnectivityMonitor

struct IsCommand: ConnctlCommand {
  static let configuration = CommandConfiguration(
    commandName: "is", abstract: "Succeed if a condition holds now.",
    usage: "connctl is [<options>] <condition>",
    discussion: Condition.help)

  @OptionGroup var options: Options
  @ParentCommand var parent: Connctl

  @Argument(
    help: "The condition.", completion: .list(Condition.allNames),
    transform: Condition.reading)
  var condition: Condition

  @OptionGroup var traffic: TrafficOptions

  func run(through connector: Connector) async throws {
    let snapshot = try await StatusCommand.status(self.socket, through: connector)
    let requirement = await self.traffic.requirement(self.condition)
      .resolved(for: snapshot.status) { await connector.firstName(ofLink: $0, at: self.socket) }
    try self.console.tell(requirement, of: snapshot, json: self.json)
  }
}

extension Condition {
  static let help = """
    A condition is \(Condition.choice). “online” holds unless the category is none. If the cost of \
    the path is unknown, neither “metered” nor “not-metered” holds.
    """
}

extension Console {
  /// Prints the answer if JSON was requested. Otherwise the exit status is the answer.
  func tell(_ requirement: Requirement, of snapshot: Snapshot, json: Bool) throws {
    let holds = requirement.holds(for: snapshot.status)
    if json {
      try self.print([
        "condition": .string(requirement.description), "holds": .bool(holds),
        "generation": .number(snapshot.generation),
      ])
    }
    guard holds else { throw ExitStatus.doesNotHold }
  }
}
