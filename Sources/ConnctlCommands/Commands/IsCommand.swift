import ArgumentParser
import Connectivity
import ConnectivityJSON
import ConnectivityMonitor

struct IsCommand: ConnctlCommand {
  static let configuration = CommandConfiguration.describing(
    "is", "Succeed if a condition holds now.", usage: "connctl is [<options>] <condition>",
    discussion: Condition.help,
    examples: [
      "connctl is online && ./sync", "connctl is not-metered && ./upload",
      "connctl is online --via wwan0 --family ipv6",
    ],
    exit: "0 if the condition holds, 1 if not.")

  @OptionGroup var options: Options
  @ParentCommand var parent: Connctl

  @Argument(help: "The condition.", completion: .list(Condition.allNames))
  var condition: String

  @OptionGroup var traffic: TrafficOptions

  func validate() throws { _ = try Condition.reading(self.condition) }

  func run(through connector: Connector) async throws {
    let condition = try Condition.reading(self.condition)
    let (snapshot, foreign) = try await StatusCommand.status(self.socket, through: connector)
    if let foreign { throw foreign }
    let requirement = await self.traffic.requirement(condition)
      .resolved(for: snapshot.status) { await connector.link(named: $0, at: self.socket) }
    // Otherwise a misspelt link would give the same answer as a link without traffic.
    if requirement.isLinkMissing {
      self.console.remark(requirement.obstacle(in: snapshot.status).text)
    }
    try self.console.tell(requirement, of: snapshot, json: self.json)
  }
}

extension Condition {
  static let help = """
    A condition is one of \(Condition.choice); not- before it negates it. “online” holds unless the \
    category is none. If the cost of the path is unknown, neither “metered” nor “not-metered” holds.
    """
}

extension Console {
  /// Prints the answer if JSON was requested. Otherwise the exit status is the answer.
  func tell(_ requirement: Requirement, of snapshot: ConnectivitySnapshot, json: Bool) throws {
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
