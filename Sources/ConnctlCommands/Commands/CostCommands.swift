import ArgumentParser
import Connectivity
import ConnectivityProtocol
import ConnectivitySession

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

/// Of what is spoken, what is said, and until when.
struct CostOptions: ParsableArguments {
  static func configuration(_ name: String, _ abstract: String) -> CommandConfiguration {
    CommandConfiguration(
      commandName: name, abstract: abstract,
      usage: "connctl \(name) [<options>] (<link> | --network <name>) [on|off|auto]",
      discussion: self.discussion)
  }

  private static let discussion = """
    All programs hear of it at once. It beats what connd finds out by itself, and the configuration beats it. auto takes it back; \
    left out, it is on.

    A network is remembered by a hash, so that it is known when the machine comes back to it; “connctl networks” lists those that \
    something is said of.

    Root may, and whom polkit lets (org.connd.set-cost): the user at the machine's seat and members of the group connd, who may \
    without polkit, too; exit status 77 for others.
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

  @Argument(help: "The link's name, unless --network names a network; and on, off or auto.")
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
    if self.until == .left, self.network == nil {
      throw ValidationError("--until left is for a network: name it by --network")
    }
  }

  /// The link, unless a network is named, and what is said.
  func parsed() throws -> (link: String?, Connectivity_V1_Choice) {
    var words = self.words[...]
    let link = self.network == nil ? words.popFirst() : nil
    guard self.network != nil || link != nil else {
      throw ValidationError("name a link, or a network with --network")
    }
    let choice: Connectivity_V1_Choice
    switch words.popFirst() {
    case "on", nil: choice = .on
    case "off": choice = .off
    case "auto": choice = .auto
    case let word?: throw ValidationError("“\(word)” is not on, off or auto")
    }
    guard words.isEmpty else { throw ValidationError("there is more than on, off or auto") }
    return (link, choice)
  }
}

/// A command that says what a link or a network costs.
protocol CostCommand: ConnctlCommand {
  var cost: CostOptions { get }
  static func say(
    _ choice: Connectivity_V1_Choice, in request: inout Connectivity_V1_SetCostRequest)
}

extension CostCommand {
  func run(through dialler: any Dialler) async throws {
    var request = Connectivity_V1_SetCostRequest()
    let (link, choice) = try self.cost.parsed()
    if let network = self.cost.network { request.network = network }
    if let link { request.link = link }
    Self.say(choice, in: &request)
    if let time = self.cost.for {
      request.seconds = UInt32(clamping: time.duration.components.seconds)
    }
    switch self.cost.until {
    case .boot: request.atBoot = true
    case .left: request.whenLeft = true
    case nil: break
    }
    let (response, isThere) = try await dialler.withConnd(at: self.socket) { [request] connd in
      let response = try await connd.setCost(request, options: .prompt)
      guard let link else { return (response, true) }
      // That it was said stands, whatever becomes of this question.
      let links = try? await connd.listLinks(
        Connectivity_V1_ListLinksRequest(), options: .prompt)
      return (response, links?.links.contains { $0.name == link } ?? true)
    }
    if !isThere, choice != .auto, let link {
      self.console.remark("there is no link “\(link)” now: it holds once there is")
    }
    if response.hasOverruledBy {
      self.console.remark(
        "the configuration says otherwise of “\(response.overruledBy)”, and that holds")
    }
  }
}
