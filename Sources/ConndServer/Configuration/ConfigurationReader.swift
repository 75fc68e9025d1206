import Connectivity
import ConnectivityRules
import Glibc
import LinuxSupport

extension Configuration {
  /// The configuration file of the machine.
  package static let systemFile = "/etc/connd/connd.yaml"

  /// Returns the default configuration file: the user's file if it exists, or else the machine's. A
  /// user's file replaces the machine's. Root has only the machine's file.
  ///
  /// - Parameter environment: Returns the value of an environment variable.
  package static func defaultFile(
    of uid: UInt32, environment: (String) -> String?, exists: (String) -> Bool
  ) -> String {
    func directory(_ variable: String) -> String? {
      // A relative path is invalid (XDG Base Directory Specification).
      environment(variable).flatMap { $0.hasPrefix("/") ? $0 : nil }
    }
    guard uid != 0,
      let directory = directory("XDG_CONFIG_HOME") ?? directory("HOME").map({ "\($0)/.config" })
    else { return Self.systemFile }
    let file = "\(directory)/connd/connd.yaml"
    return exists(file) ? file : Self.systemFile
  }

  /// Reads a file.
  ///
  /// - Parameter isOptional: Whether the file may be absent. Then the defaults apply.
  package static func read(file: String, isOptional: Bool) throws(ConfigurationError) -> Self {
    let bytes: [UInt8]
    do throws(SystemError) {
      bytes = try contents(of: file, max: Self.maxFileSize)
    } catch {
      if error.code == ENOENT, isOptional { return Configuration() }
      throw ConfigurationError(file: file, message: "cannot be read: \(error)")
    }
    return try Self.parse(String(decoding: bytes, as: UTF8.self), file: file)
  }

  /// The maximum size of a file in bytes.
  private static let maxFileSize = 1 << 20

  /// Parses the text of a file. `file` only appears in errors.
  package static func parse(_ text: String, file: String) throws(ConfigurationError) -> Self {
    let document: YAML?
    do throws(YAML.Fault) {
      document = try YAML.parse(text)
    } catch {
      throw ConfigurationError(file: file, line: error.line, message: error.message)
    }
    // A file that has only comments is an empty configuration.
    guard let document else { return Configuration() }
    var configuration = try Configuration(ConfigurationNode(yaml: document, file: file))
    configuration.source.text = text
    return configuration
  }

  private init(_ root: ConfigurationNode) throws(ConfigurationError) {
    self.init()
    try root.forEachEntry { entry throws(ConfigurationError) in
      switch entry.name {
      case "socket":
        self.socket = try entry.value.socketPath()
      case "destinations":
        try self.destinations.read(entry.value)
      case "prefer":
        self.prefer = try entry.value.oneOf(AddressFamily.self)
      case "links":
        var rules: [LinkPolicy.Rule] = []
        try ConfigurationError.collecting(try entry.value.list()) {
          rule throws(ConfigurationError) in
          let read = try LinkPolicy.Rule(configuration: rule)
          if let problem = read.problem(after: rules) {
            self.source.warnings.append("\(rule.error(problem))")
          }
          rules.append(read)
        }
        self.links = LinkPolicy(rules)
      case "grace":
        try self.invalidations.readGrace(entry.value)
      case "invalidations":
        try self.invalidations.readSeverities(entry.value)
      case "flaps":
        self.source.warnings.append(
          "\(entry.error("has no effect: connd reports flapping links as the kernel does; remove it"))"
        )
      case "identify":
        self.identify = try entry.value.oneOf(Identification.self)
      case "limits":
        try self.limits.read(entry.value)
      default:
        throw entry.unknown([
          "socket", "destinations", "prefer", "links", "grace", "invalidations", "identify",
          "limits",
        ])
      }
    }
  }
}

extension DefaultDestination {
  fileprivate mutating func read(_ node: ConfigurationNode) throws(ConfigurationError) {
    try node.forEachEntry { entry throws(ConfigurationError) in
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
    try node.forEachEntry { entry throws(ConfigurationError) in
      switch entry.name {
      case "match": self.match = try entry.value.text()
      case "medium": self.medium = try entry.value.oneOf(NetworkMedium.self)
      case "expensive": self.expensive = try entry.value.flag()
      case "constrained": self.constraint = try entry.value.constraint()
      default: throw entry.unknown(["match", "medium", "expensive", "constrained"])
      }
    }
    guard !self.match.isEmpty else {
      throw node.error("needs 'match': the name of a link or a pattern")
    }
  }

  /// Returns why a valid rule does nothing, or `nil`.
  fileprivate func problem(after earlier: [LinkPolicy.Rule]) -> String? {
    if earlier.contains(where: { $0.match == self.match }) {
      return "has no effect: an earlier entry has the same match, and the first one wins"
    }
    if self.medium == nil, self.expensive == nil, self.constraint == nil {
      return "sets nothing, and later entries do not apply to its links"
    }
    let open = self.match.lastIndex(of: "[")
    guard let open, !self.match[open...].contains("]") else { return nil }
    return "matches only a link with “[” in its name: the bracket is not closed"
  }
}

extension InvalidationPolicy {
  fileprivate mutating func readGrace(_ node: ConfigurationNode) throws(ConfigurationError) {
    try node.forEachEntry { entry throws(ConfigurationError) in
      if entry.name == "route" {
        self.routeGrace = try entry.value.duration()
      } else if let medium = NetworkMedium(rawValue: entry.name) {
        let grace = try entry.value.duration()
        self.carrierGrace[medium] = grace > .zero ? grace : nil
      } else {
        throw entry.unknown(["route"] + NetworkMedium.allCases.map(\.rawValue))
      }
    }
  }

  fileprivate mutating func readSeverities(_ node: ConfigurationNode) throws(ConfigurationError) {
    try node.forEachEntry { entry throws(ConfigurationError) in
      switch entry.name {
      case "betterPath": self.betterPath = try entry.value.severity()
      case "categoryChanged": self.categoryChanged = try entry.value.severity()
      default: throw entry.unknown(["betterPath", "categoryChanged"])
      }
    }
  }
}

extension ConfigurationNode {
  /// Returns a severity, which must be `destroy` or `drain`: a client that is only advised may hang
  /// on a dead connection.
  fileprivate func severity() throws(ConfigurationError) -> Invalidation.Severity {
    let severity = try self.oneOf(Invalidation.Severity.self)
    guard severity != .advise else { throw self.error("must be destroy or drain") }
    return severity
  }
}
