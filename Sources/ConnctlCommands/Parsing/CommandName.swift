import ArgumentParser

extension Connctl {
  static var commandNames: [String] {
    self.configuration.subcommands.compactMap { $0.configuration.commandName }
  }

  private static var aliases: [String] {
    self.configuration.subcommands.flatMap { $0.configuration.aliases }
  }

  /// Checks the word that names a command, also after `help`. Otherwise the parser would take an
  /// unknown command for a surplus argument, or show other help.
  ///
  /// - Throws: `ValidationError` if the command does not exist.
  static func checkCommandName(in arguments: [String]) throws {
    guard var word = self.firstWord(of: arguments[...]) else { return }
    if word.name == "help" {
      guard let subject = self.firstWord(of: word.rest) else { return }
      word = subject
    }
    let known = self.commandNames + self.aliases + ["help"]
    guard !known.contains(word.name) else { return }
    let nearest = word.name.nearest(of: known).map { ". Did you mean '\($0)'?" } ?? ""
    throw ValidationError("There is no command '\(word.name)'\(nearest)")
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
  /// Returns the nearest word that begins with this one, or differs from it by one or two typos.
  func nearest(of words: [String]) -> String? {
    guard !self.isEmpty else { return nil }
    if let begun = words.first(where: { $0.hasPrefix(self) }) { return begun }
    let slips = words.map { (word: $0, count: self.slips(to: $0)) }.min { $0.count < $1.count }
    // With typos in more than half of its letters, a word could stand for any other.
    guard let slips, slips.count <= 2, 2 * slips.count <= min(self.count, slips.word.count) else {
      return nil
    }
    return slips.word
  }

  /// Returns the number of missing, surplus or wrong letters. Two transposed letters count as one
  /// typo.
  private func slips(to other: String) -> Int {
    let (from, to) = (Array(self), Array(other))
    var before = [Int]()
    var row = Array(0...to.count)
    for (i, letter) in from.enumerated() {
      var next = [i + 1]
      for (j, wanted) in to.enumerated() {
        var ways = [row[j] + (letter == wanted ? 0 : 1), row[j + 1] + 1, next[j] + 1]
        if i > 0, j > 0, letter == to[j - 1], from[i - 1] == wanted {
          ways.append(before[j - 1] + 1)
        }
        next.append(ways.min() ?? 0)
      }
      (before, row) = (row, next)
    }
    return row[to.count]
  }
}
