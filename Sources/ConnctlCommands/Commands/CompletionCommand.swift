import ArgumentParser
import Connectivity
import ConnectivityMonitor
import ConnectivityProtocol

struct CompletionCommand: RunnableCommand {
  static let configuration = CommandConfiguration.describing(
    "completion", "Print a completion script for a shell.",
    examples: [
      #"eval "$(connctl completion bash)""#,
      "connctl completion fish > ~/.config/fish/completions/connctl.fish",
    ])

  @Argument(help: "The shell: bash, zsh or fish.", completion: .list(["bash", "zsh", "fish"]))
  var shell: String

  func validate() throws { _ = try self.parsed() }

  private func parsed() throws -> CompletionShell {
    guard let shell = CompletionShell(rawValue: self.shell) else {
      throw ValidationError("“\(self.shell)” is not bash, zsh or fish")
    }
    return shell
  }

  func run(through connector: Connector) async throws {
    let shell = try self.parsed()
    try Console.current.write(
      Self.withHelpTopics(Connctl.completionScript(for: shell), for: shell) + "\n")
  }

  /// A bash function that adds the lines of a text that begin with the current word.
  private static let addLines = #"""
    __connctl_add_lines() {
        local line
        while IFS='' read -r line; do
            [[ -n "${line}" && "${line}" = "${cur}"* ]] && COMPREPLY+=("${line}")
        done <<<"${1}"
    }

    """#

  /// Adds the commands as completions of `connctl help`, which the parser omits. In bash, also
  /// replaces the parser's `compgen -W "$(…)"`, which would execute code in link names.
  private static func withHelpTopics(_ script: String, for shell: CompletionShell) -> String {
    let topics = Connctl.commandNames.joined(separator: " ")
    switch shell {
    case .bash:
      return (Self.addLines + script.replacing(#"add_completions -W "$("#, with: #"add_lines "$("#))
        .inserting(
          "    __connctl_add_completions -W \"${topics// /$'\\n'}\"\n",
          before: "}\n", after: "_connctl_help() {\n    local topics='\(topics)'\n",
          replacing: "_connctl_help() {\n")
    case .zsh:
      return script.inserting(
        "(\(topics))", before: "'\n", after: "'*:subcommands:", replacing: "'*:subcommands:")
    default:
      return script
        + "\ncomplete -c 'connctl' -n '__fish_seen_subcommand_from help' -fa '\(topics)'"
    }
  }
}

extension String {
  /// Returns the text with `old` replaced by `new`, and with `text` inserted before the first `end`
  /// after that. Returns the text unchanged if `old` or `end` is missing.
  fileprivate func inserting(
    _ text: String, before end: String, after new: String, replacing old: String
  ) -> String {
    guard let start = self.firstRange(of: old),
      let place = self[start.upperBound...].firstRange(of: end)
    else { return self }
    return String(self[..<start.lowerBound]) + new
      + self[start.upperBound..<place.lowerBound] + text + self[place.lowerBound...]
  }
}

extension CompletionKind {
  /// The names of connd's links.
  static var linkNames: CompletionKind { .names(.links) }
  /// The names or identities of the networks that connd knows.
  static var networkNames: CompletionKind { .names(.networks) }
  /// The names of links, and the values of an override.
  static var costText: CompletionKind { .names(.costs) }
  /// The links and networks with an override.
  static var overrideNames: CompletionKind { .names(.overrides) }

  private static func names(_ kind: NamesCommand.Kind) -> CompletionKind {
    .shellCommand("connctl names \(kind.rawValue) 2>/dev/null")
  }

  /// The conditions, which may also follow a comma.
  static var conditions: CompletionKind {
    .custom { _, _, prefix in
      let before = prefix.lastIndex(of: ",").map { prefix[...$0] } ?? ""
      return Condition.allNames.map { before + $0 }
    }
  }
}

/// The hidden command of completion scripts. It prints names that every shell takes as one word.
struct NamesCommand: ConnctlCommand {
  static let configuration = CommandConfiguration(
    commandName: "names", abstract: "Print names for completion scripts.", shouldDisplay: false)

  enum Kind: String, ExpressibleByArgument, CaseIterable {
    case links, networks, overrides, costs
  }

  @OptionGroup var options: PlainOptions
  @ParentCommand var parent: Connctl

  @Argument(help: "The kind of names.")
  var kind: Kind

  func run(through connector: Connector) async throws {
    let names = try await connector.withServices(at: self.socket) { connd in
      switch self.kind {
      case .links, .costs:
        try await connd.links().map(\.name)
      case .networks:
        try await connd.networks()
          .filter { !$0.hasLink }.map(\.completion)
      case .overrides:
        try await connd.networks()
          .filter { $0.constrained != .auto || $0.expensive != .auto }.map(\.completion)
      }
    }
    let values = self.kind == .costs ? ["on", "off", "auto"] : []
    // A shell might execute a name, or treat one with a leading dash as an option.
    try self.console.print((values + names).filter { $0.isShellWord && !$0.hasPrefix("-") })
  }
}

extension Connectivity_V1_Network {
  /// The name if every shell takes it as one word, or else the identity.
  fileprivate var completion: String {
    self.hasLink ? self.link : self.name.isShellWord ? self.name : self.identity
  }
}
