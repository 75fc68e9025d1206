import ArgumentParser
import Connectivity
import ConnectivityProtocol
import ConnectivitySession
import GRPCCore

struct ConstrainCommand: CostCommand {
  static let configuration = CostOptions.configuration(
    "constrain", "Say whether data is to be saved on a link or a network (Low Data Mode).")

  @OptionGroup var options: Options
  @ParentCommand var parent: Connctl
  @OptionGroup var cost: CostOptions

  static func say(
    _ choice: Connectivity_V1_Choice, in request: inout Connectivity_V1_SetCostRequest
  ) {
    request.constrained = choice
  }
}

struct ExpensiveCommand: CostCommand {
  static let configuration = CostOptions.configuration(
    "expensive", "Say whether a link or a network costs money by use.")

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
  static func configuration(_ name: String, _ abstract: String) -> CommandConfiguration {
    CommandConfiguration(
      commandName: name, abstract: abstract,
      usage: "connctl \(name) [<options>] [<link> | --network <name>] [on|off|auto]",
      discussion: self.discussion)
  }

  private static let discussion = """
    Where neither a link nor a network is named, it is the network that the machine is on. All programs hear of it at once. It \
    beats what connd finds out by itself, and the configuration beats it. auto takes it back; left out, it is on.

    A network is remembered by a hash, so that it is known when the machine comes back to it; “connctl networks” lists those that \
    something is said of.

    Allowed for root and for users that polkit authorises (org.connd.set-cost): the user at the machine's seat and members of \
    the group connd, who may on a machine without polkit, too. Exit status: 77 for others, 69 if polkit does not decide.
    """

  @Option(
    parsing: .unconditional,
    help: ArgumentHelp(
      "A network: its SSID, its operator's name or gateway's address while on it, or its identity.",
      valueName: "name"))
  var network: String?

  @Option(
    parsing: .unconditional, help: ArgumentHelp("For so long.", valueName: "time"),
    transform: Timeout.reading)
  var `for`: Timeout?

  @Option(
    help: ArgumentHelp(
      "Until the machine starts anew, or leaves the network.", valueName: "boot|left"))
  var until: End?

  @Argument(help: "A link's name, unless --network names a network; and on, off or auto.")
  var words: [String] = []

  enum End: String, ExpressibleByArgument, CaseIterable {
    case boot, left
  }

  func validate() throws {
    _ = try self.parsed()
    if self.for != nil, self.until != nil {
      throw ValidationError("--for and --until: one of them ends it")
    }
    if let time = self.for, time.duration < .seconds(1) {
      throw ValidationError("--for: at least a second")
    }
    if self.until == .left, case .link = try self.parsed().target {
      throw ValidationError("--until left is for a network: name it by --network")
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
    guard words.isEmpty else { throw ValidationError("on, off or auto is the last word") }
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
  func run(through dialler: any Dialler) async throws {
    var request = Connectivity_V1_SetCostRequest()
    let (target, choice) = try self.cost.parsed()
    Self.say(choice, in: &request)
    if let time = self.cost.for {
      request.seconds = UInt32(clamping: time.duration.components.seconds)
    }
    switch self.cost.until {
    case .boot: request.atBoot = true
    case .left: request.whenLeft = true
    case nil: break
    }
    let response = try await dialler.withConnd(at: self.socket) { [request] connd in
      var request = request
      switch target {
      case .link(let name): request.link = name
      case .network(let name): request.network = name
      case .here: request.network = try await self.networkHere(connd)
      }
      let response = try await decided { try await connd.setCost(request, options: .prompt) }
      // The override is in effect, even if the following query fails.
      if choice != .auto, case .link(let name) = target,
        let links = try? await connd.listLinks(
          Connectivity_V1_ListLinksRequest(), options: .prompt),
        !links.links.contains(where: { $0.name == name || $0.alternativeNames.contains(name) })
      {
        self.console.remark("there is no link “\(name)” now: it holds once there is")
      }
      return response
    }
    if response.hasOverruledBy {
      self.console.remark(
        "the configuration says otherwise of “\(response.overruledBy)”, and that holds")
    }
    if response.notKept {
      self.console.remark(
        "it holds until connd ends: connd cannot write its file, and its log says why")
    }
  }

  /// Returns the identity of the current network.
  private func networkHere(
    _ connd: any Connectivity_V1_Connectivity.ClientProtocol
  ) async throws -> String {
    let list = try await connd.listNetworks(
      Connectivity_V1_ListNetworksRequest(), options: .prompt)
    guard let network = list.networks.first(where: \.current) else {
      self.console.remark("connd knows no network that the machine is on: name a link")
      throw ExitStatus.doesNotHold
    }
    self.console.remark(
      "of the network that the machine is on, \(network.hasName ? "“\(network.name)”" : network.identity)"
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
