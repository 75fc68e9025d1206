import ArgumentParser
import Connectivity
import ConnectivityProtocol
import ConnectivityMonitor
import GRPCCore
import SwiftProtobuf

struct ConstrainCommand: CostCommand {
  static let configuration = CostOptions.configuration(
    "constrain", "Mark a link or a network as constrained: save data (Low Data Mode).")

  @OptionGroup var options: Options
  @ParentCommand var parent: Connctl
  @OptionGroup var cost: CostOptions

  static func say(
    _ choice: Connectivity_V1_Choice, in request: inout Connectivity_V1_SetCostRequest
  ) {
    request.constrained = choice
  }
}

struct MeteredCommand: CostCommand {
  static let configuration = CostOptions.configuration(
    "metered", "Mark a link or a network as metered: traffic costs money.", alias: "expensive")

  @OptionGroup var options: Options
  @ParentCommand var parent: Connctl
  @OptionGroup var cost: CostOptions

  static func say(
    _ choice: Connectivity_V1_Choice, in request: inout Connectivity_V1_SetCostRequest
  ) {
    request.expensive = choice
  }
}

/// The target of an override, its value, and its end.
struct CostOptions: ParsableArguments {
  static func configuration(
    _ name: String, _ abstract: String, alias: String? = nil
  ) -> CommandConfiguration {
    CommandConfiguration(
      commandName: name, abstract: abstract,
      usage: "connctl \(name) [<options>] [<link> | --network <name>] [on|off|auto]",
      discussion: self.discussion, aliases: alias.map { [$0] } ?? [])
  }

  private static let discussion = """
    Sets an override. Without a link or a network, it applies to the current network. The default \
    is on; auto removes the override. connd informs all programs immediately. The override takes \
    precedence over what connd detects, and the configuration takes precedence over the override.

    An override for a network applies again whenever the machine returns to it. connd stores only \
    a hash of the network. “connctl networks” lists all overrides.

    Allowed for root and for users that polkit authorises (org.connd.set-cost): the user at the \
    machine's seat, and members of the group connd. The same users are allowed without polkit. \
    Exit status: 77 for other users, 69 if polkit does not decide.
    """

  @Option(
    parsing: .unconditional,
    help: ArgumentHelp(
      "A network: its identity or, while the machine is on it, its SSID, operator or gateway address.",
      valueName: "name"))
  var network: String?

  @Option(
    parsing: .unconditional, help: ArgumentHelp("How long it applies.", valueName: "time"),
    transform: Timeout.reading)
  var `for`: Timeout?

  @Option(
    help: ArgumentHelp(
      "When it ends: at reboot, or on leaving the network.", valueName: "boot|left"))
  var until: End?

  @Argument(help: "A link's name (not with --network), and on, off or auto.")
  var words: [String] = []

  enum End: String, ExpressibleByArgument, CaseIterable {
    case boot, left
  }

  func validate() throws {
    _ = try self.parsed()
    if self.for != nil, self.until != nil {
      throw ValidationError("use either --for or --until")
    }
    if let time = self.for, time.duration < .seconds(1) {
      throw ValidationError("--for must be at least 1s")
    }
    if self.until == .left, case .link = try self.parsed().target {
      throw ValidationError("--until left needs a network: use --network instead of a link")
    }
  }

  /// The target of an override.
  enum Target {
    case link(String)
    case network(String)
    case here
  }

  /// Returns the target and the value of the override.
  func parsed() throws -> (target: Target, Connectivity_V1_Choice) {
    var words = self.words[...]
    let target: Target
    if let network {
      target = .network(network)
    } else if let word = words.first, Self.choice(word) == nil {
      target = .link(word)
      words.removeFirst()
    } else {
      target = .here
    }
    let choice = try words.popFirst().map { word in
      guard let choice = Self.choice(word) else {
        throw ValidationError("“\(word)” is not on, off or auto")
      }
      return choice
    }
    guard words.isEmpty else { throw ValidationError("on, off or auto must be the last argument") }
    return (target, choice ?? .on)
  }

  private static func choice(_ word: String) -> Connectivity_V1_Choice? {
    switch word {
    case "on": .on
    case "off": .off
    case "auto": .auto
    default: nil
    }
  }
}

/// A command that sets a cost override.
protocol CostCommand: ConnctlCommand {
  var cost: CostOptions { get }
  static func say(
    _ choice: Connectivity_V1_Choice, in request: inout Connectivity_V1_SetCostRequest)
}

extension CostCommand {
  func run(through connector: Connector) async throws {
    var request = Connectivity_V1_SetCostRequest()
    let (target, choice) = try self.cost.parsed()
    Self.say(choice, in: &request)
    if let time = self.cost.for {
      request.duration = Google_Protobuf_Duration(rounding: time.duration)
    }
    switch self.cost.until {
    case .boot: request.atBoot = true
    case .left: request.whenLeft = true
    case nil: break
    }
    let response = try await connector.withServices(at: self.socket) { [request] connd in
      var request = request
      switch target {
      case .link(let name): request.link = name
      case .network(let name): request.network = name
      case .here: request.network = try await self.networkHere(connd)
      }
      let response = try await decided { try await connd.costs.setCost(request, options: .prompt) }
      // The override is in effect, even if the following query fails.
      if choice != .auto, case .link(let name) = target,
        let links = try? await connd.links(),
        !links.contains(where: { $0.name == name || $0.alternativeNames.contains(name) })
      {
        self.console.remark("the link “\(name)” does not exist: the override applies once it does")
      }
      return response
    }
    if response.hasOverruledBy {
      self.console.remark(
        "no effect: the configuration's rule for “\(response.overruledBy)” takes precedence")
    }
    if response.notKept {
      self.console.remark(
        "the override lasts only until connd exits: connd cannot save it (see connd's log)")
    }
  }

  /// Returns the identity of the current network.
  private func networkHere(_ connd: ConndServices) async throws -> String {
    guard let network = try await connd.networks().first(where: \.current) else {
      self.console.remark("connd cannot identify the current network: name a link instead")
      throw ExitStatus.doesNotHold
    }
    self.console.remark(
      "applies to the current network, \(network.hasName ? "“\(network.name)”" : network.identity)"
    )
    return network.identity
  }
}

/// Makes a call that polkit decides about. If polkit does not, the call fails with UNAVAILABLE
/// although connd is there.
func decided<Response>(_ call: () async throws -> Response) async throws -> Response {
  do {
    return try await call()
  } catch let error as RPCError
    where error.code == .unavailable && error.message.hasPrefix("polkit ")
  {
    throw ConndError.failed(error.message)
  }
}
