import ArgumentParser

extension Connctl {
  static var commandNames: [String] {
    self.configuration.subcommands.compactMap { $0.configuration.commandName }
  }

  /// Looks at the word that names a command, also after `help`: else the parser takes one that it does not know for an
  /// argument too many, or shows the help of something else.
  ///
  /// - Throws: `ValidationError` where there is no such command.
  static func checkCommandName(in arguments: [String]) throws {
    guard var word = self.firstWord(of: arguments[...]) else { return }
    if word.name == "help" {
      guard let subject = self.firstWord(of: word.rest) else { return }
      word = subject
    }
    let known =
      self.commandNames + ["help"]
    guard !known.contains(word.name) else { return }
    let nearest = word.name.nearest(of: known).map { ". Did you mean '\($0)'?" } ?? ""
    throw ValidationError("There is no command '\(word.name)'\(nearest)")
  }

  /// The first word that is no option of `connctl` itself; `nil` where there is none, or another option before it.
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
  /// The word that this one is the beginning of, or that one or two slips make of it; of several, the nearest.
  func nearest(of words: [String]) -> String? {
    guard !self.isEmpty else { return nil }
    if let begun = words.first(where: { $0.hasPrefix(self) }) { return begun }
    let slips = words.map { (word: $0, count: self.slips(to: $0)) }.min { $0.count < $1.count }
    // With slips in more than half of the letters any word is made of any other.
    guard let slips, slips.count <= 2, 2 * slips.count <= min(self.count, slips.word.count) else {
      return nil
    }
    return slips.word
  }

  /// How many letters are missing, too many or wrong; two that changed places are one slip.
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
