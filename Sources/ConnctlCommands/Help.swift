import ArgumentParser

extension CommandConfiguration {
  /// Returns the configuration of a command, with examples and its exit status in the help.
  ///
  /// - Parameter exit: The meaning of the exit statuses that are special to the command.
  static func describing(
    _ name: String, _ abstract: String, usage: String? = nil, discussion: String = "",
    examples: [String], exit: String = "0 on success.", alias: String? = nil
  ) -> CommandConfiguration {
    let parts = [
      discussion, (["Examples:"] + examples.map { "  \($0)" }).joined(separator: "\n"),
      "Exit status: \(exit) As for every command: 64 for wrong usage, 69 if connd does not answer, "
        + "77 if connd refuses this user.",
    ]
    return CommandConfiguration(
      commandName: name, abstract: abstract, usage: usage,
      discussion: parts.filter { !$0.isEmpty }.joined(separator: "\n\n"),
      aliases: alias.map { [$0] } ?? [])
  }
}
