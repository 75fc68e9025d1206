/// What is wrong with a configuration file, and where.
package struct ConfigurationError: Error, Hashable, CustomStringConvertible {
  package var file: String
  /// Counted from 1; `nil` where the file as a whole is meant.
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
