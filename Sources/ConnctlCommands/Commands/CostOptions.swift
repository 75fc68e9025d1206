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
        "connctl \(name)", "connctl \(name) wwan0 --for 2h",
        "connctl \(name) --network Phone --until left", "connctl \(name) wwan0 auto",
      ],
      exit:
        "0 if the override is set, 1 if the current network is not known yet, 69 also if polkit does not decide.",
      alias: alias)
  }

  private static let discussion = """
    Sets an override. Without a link or a network, it applies to the current network. The default \
    is on; auto removes the override. It takes precedence over what connd detects, including \
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
    help: ArgumentHelp("How long it applies: 30m, 2h, 1d.", valueName: "time"),
    transform: Timeout.reading)
  var `for`: Timeout?

  @Option(
    help: ArgumentHelp(
      "When it ends: at reboot, or on leaving the network.", valueName: "boot|left"))
  var until: End?

  @Argument(
    help: "A link's name (not with --network), and on, off or auto.", completion: .costText)
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
      // A link could have such a name, but the user means a value.
      if ["yes", "no", "true", "false", "enable", "disable"].contains(word.lowercased()) {
        throw Self.notAChoice(word)
      }
      target = .link(word)
      words.removeFirst()
    } else {
      target = .here
    }
    let choice = try words.popFirst().map { word in
      guard let choice = Self.choice(word) else { throw Self.notAChoice(word) }
      return choice
    }
    guard words.isEmpty else { throw ValidationError("on, off or auto must be the last argument") }
    return (target, choice ?? .on)
  }

  private static func notAChoice(_ word: String) -> ValidationError {
    ValidationError("“\(word)” is not on, off or auto")
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
