import Connectivity
import LinuxSupport

/// A value of a configuration file, with its place.
struct ConfigurationNode {
  let yaml: YAML
  let file: String
  /// The path of this value's key.
  var key: String?

  func error(_ message: String) -> ConfigurationError {
    ConfigurationError(file: self.file, line: self.yaml.line, key: self.key, message: message)
  }

  /// Reads each key of a mapping, and throws all errors together at the end.
  func forEachEntry(
    _ read: (ConfigurationEntry) throws(ConfigurationError) -> Void
  ) throws(ConfigurationError) {
    if self.yaml.isNull { return }
    guard let mapping = self.yaml.mapping else {
      throw self.error("must be a mapping of keys to values")
    }
    var names: Set<String> = []
    try ConfigurationError.collecting(mapping) { pair throws(ConfigurationError) in
      guard let name = pair.key.text, !name.isEmpty else {
        throw ConfigurationError(
          file: self.file, line: pair.key.line, key: self.key, message: "a key must be a word")
      }
      let key = self.key.map { "\($0).\(name)" } ?? name
      let value = ConfigurationNode(yaml: pair.value, file: self.file, key: key)
      let entry = ConfigurationEntry(name: name, line: pair.key.line, value: value)
      guard names.insert(name).inserted else { throw entry.error("duplicate key") }
      try read(entry)
    }
  }

  func list() throws(ConfigurationError) -> [ConfigurationNode] {
    if self.yaml.isNull { return [] }
    guard let list = self.yaml.list else { throw self.error("must be a list") }
    return list.enumerated().map { index, element in
      ConfigurationNode(yaml: element, file: self.file, key: "\(self.key ?? "")[\(index)]")
    }
  }

  func text() throws(ConfigurationError) -> String {
    guard let text = self.yaml.text, !text.isEmpty else {
      throw self.error("must be a string")
    }
    return text
  }

  func path() throws(ConfigurationError) -> String {
    let path = try self.text()
    guard path.hasPrefix("/") else { throw self.error("must be an absolute path") }
    return path
  }

  /// Returns a path that is valid for a socket, unix(7).
  func socketPath() throws(ConfigurationError) -> String {
    let path = try self.path()
    let bound = UnixAddress.maxPath
    guard path.utf8.count <= bound else {
      throw self.error("has \(path.utf8.count) bytes, but a socket path has at most \(bound)")
    }
    return path
  }

  func flag() throws(ConfigurationError) -> Bool {
    switch self.yaml.text?.lowercased() {
    case "true", "yes", "on": return true
    case "false", "no", "off": return false
    default: throw self.error("must be true or false")
    }
  }

  /// The value of `constrained`.
  func constraint() throws(ConfigurationError) -> ConstraintLevel {
    if self.yaml.text?.lowercased() == "ultra" { return .ultra }
    do { return try self.flag() ? .constrained : .unconstrained } catch {
      throw self.error("must be true, false or ultra")
    }
  }

  func number(in range: ClosedRange<Int>) throws(ConfigurationError) -> Int {
    // Decimal digits only. YAML also treats 0x10 and 1_0 as numbers.
    guard let number = Int(try self.text()), range.contains(number) else {
      throw self.error("must be a whole number from \(range.lowerBound) to \(range.upperBound)")
    }
    return number
  }

  /// Returns a number of bytes: `4096`, `4KiB` or `1MiB`.
  func size(in range: ClosedRange<Int>) throws(ConfigurationError) -> Int {
    let text = try self.text()
    let units = [("KiB", 1 << 10), ("MiB", 1 << 20), ("", 1)]
    guard let (suffix, scale) = units.first(where: { text.hasSuffix($0.0) }),
      let number = Int(text.dropLast(suffix.count)),
      case (let bytes, false) = number.multipliedReportingOverflow(by: scale),
      range.contains(bytes)
    else {
      throw self.error(
        "'\(text)' is not a size from \(range.lowerBound) to \(range.upperBound) bytes; for example 4096, 4KiB or 1MiB"
      )
    }
    return bytes
  }

  func oneOf<Value>(_ type: Value.Type) throws(ConfigurationError) -> Value
  where Value: CaseIterable & RawRepresentable<String> {
    let text = try self.text()
    guard let value = Value(rawValue: text) else {
      let values = Value.allCases.map(\.rawValue)
      let hint = text.nearest(of: values).map { " (did you mean '\($0)'?)" } ?? ""
      throw self.error("'\(text)' is not one of \(values.joined(separator: ", "))\(hint)")
    }
    return value
  }

  func addresses(of family: AddressFamily) throws(ConfigurationError) -> [IPAddress] {
    var addresses: [IPAddress] = []
    try ConfigurationError.collecting(try self.list()) { element throws(ConfigurationError) in
      let text = try element.text()
      guard let address = IPAddress(text), address.family == family else {
        throw element.error("'\(text)' is not an \(family == .ipv4 ? "IPv4" : "IPv6") address")
      }
      guard !address.isLoopback, !address.isUnspecified else {
        throw element.error("'\(text)' is a local address; use a remote one")
      }
      addresses.append(address)
    }
    guard (1...maximumProbes).contains(addresses.count) else {
      throw self.error("must have between 1 and \(maximumProbes) addresses")
    }
    return addresses
  }

  func duration() throws(ConfigurationError) -> Duration {
    let text = try self.text()
    guard let duration = Duration(text: text) else {
      throw self.error("'\(text)' is not a duration; expected \(Duration.notation)")
    }
    guard duration <= .seconds(86_400) else {
      throw self.error("'\(text)' is too long; the maximum is 24h")
    }
    return duration
  }
}

/// A key of a mapping and its value.
struct ConfigurationEntry {
  let name: String
  let line: Int
  let value: ConfigurationNode

  func error(_ message: String) -> ConfigurationError {
    ConfigurationError(
      file: self.value.file, line: self.line, key: self.value.key, message: message)
  }

  func unknown(_ known: [String]) -> ConfigurationError {
    // The command line uses another word than the file.
    let synonym = self.name == "metered" && known.contains("expensive") ? "expensive" : nil
    let nearest = synonym ?? self.name.nearest(of: known)
    let isLogLevel = ["log-level", "logLevel", "loglevel"].contains(self.name)
    let hint =
      isLogLevel
      ? " (use the option --log-level of connd)"
      : nearest.map { " (did you mean '\($0)'?)" } ?? ""
    return self.error("unknown key\(hint); expected one of \(known.joined(separator: ", "))")
  }
}

/// The maximum number of probes. Each probe costs a lookup on every event.
private let maximumProbes = 16
