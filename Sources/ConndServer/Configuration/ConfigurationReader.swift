import Connectivity
import ConnectivityRules
import Glibc
import UnixTransport
import Yams

extension Configuration {
  /// The configuration's file unless another is named.
  package static let defaultFile = "/etc/connd/connd.yaml"

  /// Reads a file.
  ///
  /// - Parameter isOptional: whether the file may be absent; the defaults hold then.
  package static func read(file: String, isOptional: Bool) throws(ConfigurationError) -> Self {
    switch contents(of: file) {
    case .success(let text):
      return try Self.parse(text, file: file)
    case .failure(let error) where error.code == ENOENT && isOptional:
      return Configuration()
    case .failure(let error):
      throw ConfigurationError(file: file, message: "cannot be read: \(error)")
    }
  }

  /// Reads the text of a file; `file` is only named in errors.
  package static func parse(_ text: String, file: String) throws(ConfigurationError) -> Self {
    let root: Node?
    do {
      root = try Yams.compose(yaml: text)
    } catch {
      throw ConfigurationError(yaml: error, file: file)
    }
    // A file of comments alone is an empty configuration.
    guard let root, root.null == nil else { return Configuration() }
    return try Configuration(ConfigurationNode(node: root, file: file))
  }

  private init(_ root: ConfigurationNode) throws(ConfigurationError) {
    self.init()
    for entry in try root.entries() {
      switch entry.name {
      case "socket":
        self.socket = try entry.value.socketPath()
      case "destinations":
        try self.destinations.read(entry.value)
      case "prefer":
        self.prefer = try entry.value.oneOf(AddressFamily.self)
      case "links":
        self.links = LinkPolicy(try entry.value.list().map(LinkPolicy.Rule.init(configuration:)))
      case "grace":
        try self.invalidations.readGrace(entry.value)
      case "invalidations":
        try self.invalidations.readSeverities(entry.value)
      case "limits":
        try self.limits.read(entry.value)
      default:
        throw entry.unknown([
          "socket", "destinations", "prefer", "links", "grace", "invalidations", "limits",
        ])
      }
    }
  }
}

extension DefaultDestination {
  fileprivate mutating func read(_ node: ConfigurationNode) throws(ConfigurationError) {
    for entry in try node.entries() {
      switch entry.name {
      case "ipv4": self.ipv4 = try entry.value.addresses(of: .ipv4)
      case "ipv6": self.ipv6 = try entry.value.addresses(of: .ipv6)
      default: throw entry.unknown(["ipv4", "ipv6"])
      }
    }
  }
}

extension LinkPolicy.Rule {
  fileprivate init(configuration node: ConfigurationNode) throws(ConfigurationError) {
    self.init(match: "")
    for entry in try node.entries() {
      switch entry.name {
      case "match": self.match = try entry.value.text()
      case "medium": self.medium = try entry.value.oneOf(Medium.self)
      case "expensive": self.expensive = try entry.value.flag()
      case "constrained": self.constrained = try entry.value.flag()
      default: throw entry.unknown(["match", "medium", "expensive", "constrained"])
      }
    }
    guard !self.match.isEmpty else {
      throw node.error("needs a 'match': a link's name or a pattern of names")
    }
  }
}

extension InvalidationPolicy {
  fileprivate mutating func readGrace(_ node: ConfigurationNode) throws(ConfigurationError) {
    for entry in try node.entries() {
      switch entry.name {
      case "wifi": self.wifiGrace = try entry.value.duration()
      case "route": self.routeGrace = try entry.value.duration()
      default: throw entry.unknown(["wifi", "route"])
      }
    }
  }

  fileprivate mutating func readSeverities(_ node: ConfigurationNode) throws(ConfigurationError) {
    for entry in try node.entries() {
      switch entry.name {
      case "betterPath": self.betterPath = try entry.value.severity()
      case "categoryChanged": self.categoryChanged = try entry.value.severity()
      default: throw entry.unknown(["betterPath", "categoryChanged"])
      }
    }
  }
}

extension ConfigurationNode {
  /// What may be softened is softened to `drain`: who is told nothing hangs.
  fileprivate func severity() throws(ConfigurationError) -> Invalidation.Severity {
    let severity = try self.oneOf(Invalidation.Severity.self)
    guard severity != .advise else { throw self.error("is destroy or drain") }
    return severity
  }
}

extension ConfigurationError {
  fileprivate init(yaml error: any Error, file: String) {
    switch error as? YamlError {
    // To YAML, a word that begins with * names something written before.
    case .composer(_, "found undefined alias", let mark, _):
      self.init(file: file, line: mark.line, message: quoteStar)
    case .scanner(let context?, _, let mark, _) where context.text.contains("alias"):
      self.init(file: file, line: mark.line, message: quoteStar)
    case .scanner(_, let problem, let mark, _), .parser(_, let problem, let mark, _),
      .composer(_, let problem, let mark, _):
      self.init(file: file, line: mark.line, message: problem)
    case .duplicatedKeysInMapping(let keys, let context):
      // Yams has words for such keys only as are words.
      let name = keys.first { $0 != "<uncovertable>" }
      self.init(
        file: file, line: context.mark.line, key: name,
        message: name == nil ? "a key must be a word" : "is there twice")
    case .reader(let problem, _, let value, let text):
      self.init(file: file, line: text.line(ofFirst: value), message: problem)
    default:
      self.init(file: file, message: "is not YAML: \(error)")
    }
  }
}

extension String {
  /// The line of a character that YAML's reader stopped at, which names no line (and no place, where the character is one
  /// with its neighbour to Swift).
  fileprivate func line(ofFirst scalar: Int32) -> Int? {
    let scalars = self.unicodeScalars
    guard let place = scalars.firstIndex(where: { $0.value == UInt32(bitPattern: scalar) }) else {
      return nil
    }
    return 1 + self[..<place].count { $0.isNewline }
  }
}

private let quoteStar = "quote patterns that begin with *, as in match: \"*ppp\""

/// The text of a file, which may not be larger than a configuration can be.
private func contents(of file: String) -> Result<String, SystemError> {
  let descriptor = open(file, O_RDONLY | O_CLOEXEC)
  guard descriptor >= 0 else { return .failure(SystemError()) }
  defer { close(descriptor) }
  var bytes = [UInt8](repeating: 0, count: 1 << 20)
  var count = 0
  while count < bytes.count {
    let result = bytes.withUnsafeMutableBytes {
      Glibc.read(descriptor, $0.baseAddress?.advanced(by: count), $0.count - count)
    }
    if result < 0, errno == EINTR { continue }
    guard result >= 0 else { return .failure(SystemError()) }
    if result == 0 { return .success(String(decoding: bytes[..<count], as: UTF8.self)) }
    count += result
  }
  return .failure(SystemError(EFBIG))
}
