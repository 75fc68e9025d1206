/// All mistakes in a configuration file that can be found at once.
package struct ConfigurationError: Error, Hashable, CustomStringConvertible {
  /// One mistake and its place.
  package struct Mistake: Hashable, Sendable, CustomStringConvertible {
    package var file: String
    /// Counted from 1, or `nil` for the file as a whole.
    package var line: Int?
    /// The path of the key: `links[0].medium`.
    package var key: String?
    package var message: String

    /// `connd.yaml:12: links[0].medium: …`
    package var description: String {
      let place = [self.file, self.line.map(String.init)].compactMap { $0 }.joined(separator: ":")
      return [place, self.key, self.message].compactMap { $0 }.joined(separator: ": ")
    }
  }

  /// The mistakes in the order of the file, at least one.
  package private(set) var mistakes: [Mistake]

  package init(file: String, line: Int? = nil, key: String? = nil, message: String) {
    self.mistakes = [Mistake(file: file, line: line, key: key, message: message)]
  }

  /// One line per mistake.
  package var description: String {
    self.mistakes.map(\.description).joined(separator: "\n")
  }

  /// Calls a closure for each element, and throws all errors together at the end.
  static func collecting<Element>(
    _ elements: some Sequence<Element>,
    _ body: (Element) throws(ConfigurationError) -> Void
  ) throws(ConfigurationError) {
    var mistakes: [Mistake] = []
    for element in elements {
      do throws(ConfigurationError) {
        try body(element)
      } catch {
        mistakes += error.mistakes
      }
    }
    if !mistakes.isEmpty { throw ConfigurationError(mistakes) }
  }

  private init(_ mistakes: [Mistake]) { self.mistakes = mistakes }
}
