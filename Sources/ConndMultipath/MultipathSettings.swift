import LinuxSupport

/// The configuration of connd-multipath: lines `key: value`, with comments after `#`.
struct MultipathSettings: Hashable {
  /// The file that is read by default.
  static let systemFile = "/etc/connd/multipath.yaml"

  /// Whether to set the flag `backup` of other programs' endpoints, too.
  var adopt = false

  init() {}

  /// - Throws: An error that names the file, the line and the key.
  init(file: String) throws(SettingsError) {
    guard let text = readFile(file) else {
      throw SettingsError(message: "\(file): \(SystemError())")
    }
    try self.init(text, file: file)
  }

  init(_ text: String, file: String) throws(SettingsError) {
    var keys: Set<String> = []
    let lines = text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline)
    for (number, line) in lines.enumerated() {
      let content = line.prefix { $0 != "#" }
      let words = content.split(separator: ":", maxSplits: 1).map { $0.split(separator: " ") }
      guard !words.allSatisfy(\.isEmpty) else { continue }
      func fail(_ message: String) -> SettingsError {
        SettingsError(message: "\(file):\(number + 1): \(message)")
      }
      guard words.count == 2, words[0].count == 1, let key = words[0].first.map(String.init) else {
        throw fail("expected 'key: value'")
      }
      guard keys.insert(key).inserted else { throw fail("duplicate key '\(key)'") }
      switch key {
      case "adopt":
        switch words[1] {
        case ["true"]: self.adopt = true
        case ["false"]: self.adopt = false
        default: throw fail("\(key): must be true or false")
        }
      default: throw fail("unknown key '\(key)'")
      }
    }
  }
}

/// An error in the configuration.
struct SettingsError: Error, CustomStringConvertible {
  var message: String
  var description: String { self.message }
}
