import ArgumentParser
import Connectivity

extension Connctl {
  static var commandNames: [String] {
    self.configuration.subcommands.filter { $0.configuration.shouldDisplay }
      .compactMap { $0.configuration.commandName }
  }

  private static var otherNames: [String] {
    self.configuration.subcommands.flatMap { command in
      command.configuration.aliases
        + (command.configuration.shouldDisplay
          ? [] : [command.configuration.commandName].compactMap { $0 })
    }
  }

  /// The commands that users of other tools expect, and connctl's names for them.
  private static let hints = [
    "list": "links", "ls": "links", "interfaces": "links", "devices": "links",
    "monitor": "watch", "follow": "watch", "show": "status", "info": "status", "log": "history",
    "events": "history", "resolvers": "dns", "exporter": "metrics",
    "prometheus": "metrics", "version": "--version", "completions": "completion",
    "cost": "metered", "unmetered": "metered off", "bugreport": "report",
  ]

  /// Checks the word that names a command, also after `help`. Otherwise the parser would treat an
  /// unknown command as a surplus argument, or show the wrong help.
  ///
  /// - Throws: `ValidationError` if the command does not exist.
  static func checkCommandName(in arguments: [String]) throws {
    try self.checkVersionOption(arguments.first)
    guard var word = self.firstWord(of: arguments[...]) else { return }
    if word.name == "help" {
      guard let subject = self.firstWord(of: word.rest) else { return }
      word = subject
    }
    let known = self.commandNames + ["help"]
    guard !(known + self.otherNames).contains(word.name) else { return }
    // `connctl constrained on` asks nothing.
    let isSetting = word.rest.contains { ["on", "off", "auto"].contains($0) }
    let condition = isSetting ? nil : Condition.hint(for: word.name).map { "is \($0)" }
    let nearest = self.hints[word.name] ?? condition ?? word.name.nearest(of: known)
    throw ValidationError(
      "unknown command '\(word.name)'\(nearest.map { ". Did you mean '\($0)'?" } ?? "")")
  }

  /// The parser suggests its own option --version for no mistake.
  private static func checkVersionOption(_ word: String?) throws {
    guard let word, word == "-v" || word.hasPrefix("--"), word != "--version" else { return }
    let known = ["version", "help", "json", "socket", "generate-completion-script"]
    guard word == "-v" || String(word.dropFirst(2)).nearest(of: known) == "version" else { return }
    throw ValidationError("Unknown option '\(word)'. Did you mean '--version'?")
  }

  /// Returns the first word that is not an option of `connctl` itself, or `nil` if no such word
  /// exists, or another option precedes it.
  private static func firstWord(
    of arguments: ArraySlice<String>
  ) -> (name: String, rest: ArraySlice<String>)? {
    var rest = arguments
    while let word = rest.popFirst() {
      switch word {
      case "--json": continue
      case "--socket": rest = rest.dropFirst()
      case _ where word.hasPrefix("--socket="): continue
      case _ where word.hasPrefix("-"): return nil
      default: return (word, rest)
      }
    }
    return nil
  }
}

extension String {
  /// The parser's message, without a suggestion that has little in common with the word.
  ///
  /// For example, the parser suggests `--json` for `--for`.
  var withoutFarFetchedSuggestion: String {
    let (start, middle) = ("Unknown option '", "'. Did you mean '")
    guard let line = self.split(separator: "\n").first, let begin = line.firstRange(of: start),
      let between = line.firstRange(of: middle), begin.upperBound <= between.lowerBound,
      let end = line[between.upperBound...].firstRange(of: "'?")
    else { return self }
    let typed = String(line[begin.upperBound..<between.lowerBound].drop { $0 == "-" })
    let meant = String(line[between.upperBound..<end.lowerBound].drop { $0 == "-" })
    guard typed.nearest(of: [meant]) == nil else { return self }
    return String(self[..<between.lowerBound]) + "'" + String(self[end.upperBound...])
  }
}
