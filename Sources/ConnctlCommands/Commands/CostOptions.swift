import ArgumentParser
import Connectivity
import ConnectivityProtocol

/// The target of an override, its value, and its end.
struct CostOptions: ParsableArguments {
  static func configuration(
    _ name: String, _ abstract: String, alias: String? = nil
  ) -> CommandConfiguration {
    .describing(
      name, abstract,
      usage: "connctl \(name) [<options>] [<link> | --network <name>] [on|off|auto]",
      discussion: self.discussion,
      examples: [
        "connctl \(name)", "connctl \(name) on", "connctl \(name) wwan0 on --for 2h",
        "connctl \(name) --network Phone on --until left", "connctl \(name) wwan0 auto",
      ],
      exit:
        "0 if it is shown or the override is set, 1 if the current network is not known yet, 69 also if polkit does not decide.",
      alias: alias)
  }

  private static let discussion = """
    Without on, off or auto, shows what applies now. on and off set an override, and auto removes \
    it. Without a link or a network, it applies to the current network. It takes precedence over what connd detects, including \
    NetworkManager's setting, which it does not change; the configuration takes precedence over the \
    override.

    Programs that ask connd obey it: connctl is, run and keep, connd-unmetered.target, and \
    applications with connd's library. Programs that ask NetworkManager do not.

    An override for a network applies again whenever the machine returns to it. “connctl networks” \
    lists all overrides.

    Allowed for root and for users that polkit authorises (org.connd.set-cost): the user at the \
    machine's seat, and members of the group connd. The same users are allowed without polkit.
    """

  @Option(
    parsing: .unconditional,
    help: ArgumentHelp(
      "A network: its identity or, while the machine is on it, its SSID, operator or gateway address.",
      valueName: "name"),
    completion: .networkNames)
  var network: String?

  @Option(
    parsing: .unconditional,
    help: ArgumentHelp("A link that need not exist yet.", valueName: "name"),
    completion: .linkNames)
  var link: String?

  @Option(
    parsing: .unconditional,
    help: ArgumentHelp("How long it applies: 30m, 2h, 1d.", valueName: "time"),
    transform: Timeout.reading)
  var `for`: Timeout?

  @Option(
    help: ArgumentHelp(
      "When it ends: at reboot, or on leaving the network.", valueName: "boot|left"))
  var until: End?

  @Argument(
    help: "The name of a link that exists, and on, off or auto.", completion: .costText)
  var words: [String] = []

  enum End: String, ExpressibleByArgument, CaseIterable {
    case boot, left
  }

  func validate() throws {
    if self.for != nil, self.until != nil {
      throw ValidationError("use either --for or --until")
    }
    if let time = self.for, time.duration < .seconds(1) {
      throw ValidationError("--for must be at least 1s")
    }
    let (target, choice) = try self.parsed()
    if self.for != nil || self.until != nil, choice == nil {
      throw ValidationError("--for and --until need on, off or auto")
    }
    if self.link != nil, self.network != nil {
      throw ValidationError("use either --link or --network")
    }
    guard self.link != "" else { throw ValidationError("--link needs a name") }
    if self.until == .left, target.link != nil {
      throw ValidationError("--until left needs a network: use --network instead of a link")
    }
  }

  /// The target of an override.
  enum Target {
    /// A link that must exist unless `--link` names it.
    case link(String, mayBeMissing: Bool)
    case network(String)
    case here

    var link: String? { if case .link(let name, _) = self { name } else { nil } }
  }

  /// Returns the target, and the value of the override or `nil` without one.
  func parsed() throws -> (target: Target, choice: Connectivity_V1_Choice?) {
    var words = self.words[...]
    let target: Target
    if let network {
      target = .network(network)
    } else if let link {
      target = .link(link, mayBeMissing: true)
    } else if let word = words.first, Self.choice(word) == nil {
      // A link could have such a name, but the user means a value.
      if ["yes", "no", "true", "false", "enable", "disable"].contains(word.lowercased()) {
        throw Self.notAChoice(word)
      }
      target = .link(word, mayBeMissing: false)
      words.removeFirst()
    } else {
      target = .here
    }
    let choice = try words.popFirst().map { word in
      guard let choice = Self.choice(word) else { throw Self.notAChoice(word) }
      return choice
    }
    guard words.isEmpty else { throw ValidationError("on, off or auto must be the last argument") }
    return (target, choice)
  }

  private static func notAChoice(_ word: String) -> ValidationError {
    ValidationError("“\(word)” is not on, off or auto")
  }

  /// Returns the error of a word that is neither a link nor a value.
  static func notALink(_ word: String, links: [String]) -> ValidationError {
    let meant = word.nearest(of: ["on", "off", "auto"] + links)
    let hint = meant.map { ". Did you mean '\($0)'?" } ?? "."
    return ValidationError(
      "“\(word)” is not a link, and not on, off or auto\(hint) For a link that does not exist yet: --link \(word.shellWord)"
    )
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
