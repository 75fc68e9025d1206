import ArgumentParser
import Connectivity
import ConnectivityJSON
import ConnectivityMonitor
import ConnectivityProtobuf
import ConnectivityProtocol
import GRPCCore

struct NetworksCommand: ConnctlCommand {
  static let configuration = CommandConfiguration.describing(
    "networks", "List the current networks, and those with overrides.",
    discussion: """
      Of networks that the machine is not on, connd stores the identity, a hash, and the name if \
      you wrote one in an override. Only you and root see that name.
      """,
    examples: ["connctl networks", "connctl networks --json | jq -r .identity"])

  @OptionGroup var options: Options
  @ParentCommand var parent: Connctl

  func run(through connector: Connector) async throws {
    let (networks, assist) = try await self.answer(through: connector) {
      (try await $0.networks(), try await $0.assist())
    }
    if self.json {
      for network in networks { try self.console.print(.network(network)) }
      return
    }
    if let text = self.console.style.text(assist) { self.console.remark(text) }
    if networks.isEmpty {
      self.console.remark(
        "no network is known: the machine is not on one, or its router has not answered yet")
    } else {
      try self.console.print(self.console.style.networks(networks))
    }
  }
}

struct ForgetCommand: ConnctlCommand {
  static let configuration = CommandConfiguration.describing(
    "forget", "Remove the override for a network or a link.",
    examples: ["connctl forget Home", "connctl forget wlan0"],
    exit: "1 if no override exists.")

  @OptionGroup var options: PlainOptions
  @ParentCommand var parent: Connctl

  @Argument(help: "A network, by its name or identity, or a link.", completion: .overrideNames)
  var name: String

  func run(through connector: Connector) async throws {
    var request = Connectivity_V1_ForgetNetworkRequest()
    request.network = self.name
    let isForgotten = try await self.answer(through: connector) { [request] connd in
      do {
        if try await decided({
          try await connd.call(ConndServices.Costs.ForgetNetwork.self, request)
        }).notKept {
          self.console.remark(
            "the override returns when connd restarts: connd cannot save the change (see connd's log)"
          )
        }
        return true
      } catch let error as RPCError where error.code == .notFound {
        self.console.remark(error.message)
        return false
      }
    }
    guard isForgotten else { throw ExitStatus.doesNotHold }
    try self.console.print(["connd decides again about the costs of “\(self.name.printable)”"])
  }
}

extension JSON {
  /// Returns the object of `connctl networks --json`.
  static func network(_ network: Connectivity_V1_Network) -> JSON {
    [
      "name": .string(network.hasName ? network.name : nil),
      "identity": .string(network.hasIdentity ? network.identity : nil),
      "link": .string(network.hasLink ? network.link : nil),
      "medium": .string(NetworkMedium(network.medium).rawValue),
      "constrained": .choice(network.constrained),
      "expensive": .choice(network.expensive),
      "current": .bool(network.current),
      "user": network.hasUser ? .number(network.user) : .null,
      "until": .string(network.time(\.hasEndTime, \.endTime)?.description),
      "constrainedUntil": .string(
        network.time(\.hasConstrainedEndTime, \.constrainedEndTime)?.description),
      "expensiveUntil": .string(
        network.time(\.hasExpensiveEndTime, \.expensiveEndTime)?.description),
    ]
  }

  private static func choice(_ choice: Connectivity_V1_Choice) -> JSON {
    switch choice {
    case .on: .bool(true)
    case .off: .bool(false)
    case .auto, .unspecified, .UNRECOGNIZED: .null
    }
  }
}

extension Style {
  /// Returns the text of `connctl networks`.
  func networks(_ networks: [Connectivity_V1_Network]) -> [String] {
    var rows = Table(["NAME", "IDENTITY", "MEDIUM", "SETTINGS"])
    for (place, network) in networks.enumerated() {
      // An override by SSID applies to both the open and the protected network. Both share a row,
      // unless the machine is on one of them.
      if networks[..<place].contains(where: network.isTwin) { continue }
      let hasTwin = !network.current && networks[(place + 1)...].contains { $0.isTwin(of: network) }
      let name = network.hasLink ? network.link : network.name
      var parts: [String] = []
      if network.current { parts.append("here") }
      if network.hasLink { parts.append("link") }
      parts += self.text(
        network.constrained, "constrained",
        until: network.time(\.hasConstrainedEndTime, \.constrainedEndTime))
      parts += self.text(
        network.expensive, "metered",
        until: network.time(\.hasExpensiveEndTime, \.expensiveEndTime))
      rows.add(
        Text(name.isEmpty ? "-" : name),
        Text(hasTwin ? "open or protected" : network.identity, .faint),
        Text(network.current ? NetworkMedium(network.medium).rawValue : "-"),
        Text(parts.joined(separator: ", ")))
    }
    return rows.lines(self)
  }

  /// Returns a text about the choice of `connctl assist`, or `nil` if none was made.
  func text(_ response: Connectivity_V1_ListNetworksResponse) -> String? {
    let until =
      response.hasAssistEndTime ? try? WallTime(response.assistEndTime) : nil
    let text = self.text(response.assist, "allowed to leave a bad network", until: until)
    return text.first.map { "connections are \($0) (connctl assist)" }
  }

  private func text(
    _ choice: Connectivity_V1_Choice, _ property: String, until: WallTime?
  ) -> [String] {
    let end = until.map { until in
      let local = self.localTime(until)
      return " until " + Text.tied(local.date, local.time)
    }
    switch choice {
    case .on: return [property + (end ?? "")]
    case .off: return ["not " + property + (end ?? "")]
    case .auto, .unspecified, .UNRECOGNIZED: return []
    }
  }
}

extension Connectivity_V1_Network {
  /// Whether the machine is not on this network, and `other` has the same name and settings.
  fileprivate func isTwin(of other: Self) -> Bool {
    self.hasName && !self.hasLink && !self.current && self.name == other.name
      && self.constrained == other.constrained && self.expensive == other.expensive
      && self.constrainedEndTime == other.constrainedEndTime
      && self.expensiveEndTime == other.expensiveEndTime
  }

  fileprivate func time(
    _ isThere: KeyPath<Self, Bool>, _ time: KeyPath<Self, Google_Protobuf_Timestamp>
  ) -> WallTime? {
    self[keyPath: isThere] ? try? WallTime(self[keyPath: time]) : nil
  }
}
