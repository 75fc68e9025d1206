import Connectivity
import ConnectivityRules
import Glibc
import LinuxSupport
import Logging

/// Stores users' cost overrides and the machine's key for networks.
///
/// The file is text: a line with the format, a line with the key, a line for each override, and a
/// checksum. It is replaced atomically. An unreadable file is renamed, and connd starts without
/// overrides. Not thread-safe.
final class OverrideFile {
  /// The stored state.
  struct Contents: Hashable {
    var key = NetworkKey()
    var overrides = CostOverrides()
  }

  private static let header = "connd networks 2"
  /// The first line of the old format, in which all overrides of one subject end together.
  private static let oldHeader = "connd networks 1"
  /// The maximum file size in bytes, enough for more overrides than connd accepts.
  private static let maxSize = 1 << 20

  private let path: String
  private let boot: String
  private let logger: Logger
  /// The contents of the file, or `nil` if it could not be read or written.
  private var saved: Contents?
  private var failures = LogThrottle()

  /// - Parameters:
  ///   - path: The path of the file. Its directory must exist.
  ///   - boot: The ID of the current boot.
  init(path: String, boot: String, logger: Logger) {
    self.path = path
    self.boot = boot
    self.logger = logger
  }

  /// Returns the kernel's ID of the current boot (proc_sys_kernel(5)), or an empty string if a
  /// sandbox hides it.
  static func bootID(_ file: String = "/proc/sys/kernel/random/boot_id") -> String {
    guard let bytes = try? contents(of: file, max: 64) else { return "" }
    return String(decoding: bytes, as: UTF8.self).filter { $0.isHexDigit || $0 == "-" }
  }

  /// Returns what an earlier run has stored. If the file is not readable, returns new contents and
  /// stores their key.
  func load() -> Contents {
    self.saved = self.read()
    if let saved { return saved }
    let new = Contents()
    _ = self.save(new)
    return new
  }

  private func read() -> Contents? {
    let bytes: [UInt8]
    do throws(SystemError) {
      bytes = try contents(of: self.path, max: Self.maxSize, followsLinks: false)
    } catch {
      if error.code != ENOENT { self.putAside("cannot be read: \(error)") }
      return nil
    }
    do throws(Fault) {
      return try Self.read(bytes, boot: self.boot)
    } catch {
      self.putAside(error.text)
      return nil
    }
  }

  private func putAside(_ why: String) {
    let aside = "\(self.path).damaged"
    let isAside = rename(self.path, aside) == 0
    self.logger.warning(
      "the file of cost overrides \(why); it \(isAside ? "was" : "cannot be") renamed, and all overrides are lost",
      metadata: ["path": "\(self.path)", "aside": "\(aside)"])
  }

  /// Whether the file already has these contents.
  func holds(_ contents: Contents) -> Bool { contents == self.saved }

  /// Replaces the file atomically, so that after a crash it has either the old or the new contents.
  ///
  /// - Returns: Whether the new contents are on the disk. If not, the file is unchanged.
  func save(_ contents: Contents) -> Bool {
    let temporary = "\(self.path).new"
    do throws(SystemError) {
      try Self.write(Array(Self.text(contents, boot: self.boot).utf8), to: temporary)
      guard rename(temporary, self.path) == 0 else { throw SystemError() }
      try Self.syncDirectory(of: self.path)
    } catch {
      unlink(temporary)
      self.complain(error)
      return false
    }
    self.saved = contents
    return true
  }

  /// Writes a file and waits until its bytes are on the disk.
  private static func write(_ bytes: [UInt8], to path: String) throws(SystemError) {
    let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard descriptor >= 0 else { throw SystemError() }
    defer { close(descriptor) }
    guard RecordFrame.write(bytes, to: descriptor), fsync(descriptor) == 0 else {
      throw SystemError()
    }
  }

  /// Waits until a file's name is on the disk, too (fsync(2)).
  private static func syncDirectory(of path: String) throws(SystemError) {
    let end = path.lastIndex(of: "/")
    let directory = end.map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
    let descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { throw SystemError() }
    defer { close(descriptor) }
    // Not every file system supports fsync for directories.
    guard fsync(descriptor) == 0 || errno == EINVAL else { throw SystemError() }
  }

  private func complain(_ error: SystemError) {
    guard let suppressed = self.failures.next(at: .now()) else { return }
    var metadata: Logger.Metadata = ["path": "\(self.path)", "error": "\(error)"]
    if suppressed > 0 { metadata["suppressed"] = "\(suppressed)" }
    self.logger.error(
      "cost overrides cannot be written to the disk and last until connd exits",
      metadata: metadata)
  }

  // MARK: - Format

  /// The reason why a text is not a valid override file.
  struct Fault: Error, Hashable {
    var text: String
  }

  static func text(_ contents: Contents, boot: String) -> String {
    let overrides = contents.overrides.all.map { self.line($0, $1, boot) }.sorted()
    let key = contents.key.bytes.map { NetworkHash(UInt64($0)).description.suffix(2) }.joined()
    let body = ([self.header, "key \(key)"] + overrides).map { $0 + "\n" }.joined()
    return body + "end \(self.checksum(Array(body.utf8)[...]))\n"
  }

  private static func line(
    _ subject: CostOverrides.Subject, _ override: CostOverride, _ boot: String
  ) -> String {
    var words =
      switch subject {
      case .link(let name): ["link", name]
      case .network(let network): ["network", network.description]
      case .machine: ["machine", "-"]
      }
    words.append("user=\(override.user)")
    if let name = override.name { words.append("name=\(Self.hexadecimal(name))") }
    // The word for an end (`time`, `boot` or `left`) follows the property that it applies to.
    for (name, setting) in [
      ("constrained", override.constrained), ("expensive", override.expensive),
      ("assist", override.assist),
    ] {
      guard let setting else { continue }
      words.append("\(name)=\(setting.isOn)")
      switch setting.end {
      case .time(let time): words.append("time=\(time.microseconds)")
      case .boot: words.append("boot=\(boot)")
      case .left: words.append("left=true")
      case nil: break
      }
    }
    return words.joined(separator: " ")
  }

  /// Parses the contents of the file. Works on bytes instead of characters, because a thousand
  /// lines must not delay the start.
  static func read(_ bytes: [UInt8], boot: String) throws(Fault) -> Contents {
    var lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)[...]
    let header = lines.first.map { String($0) }
    guard header == Self.header || header == Self.oldHeader else {
      throw Fault(text: "has an unknown format")
    }
    // The last line also ends with a newline.
    guard lines.popLast()?.isEmpty ?? false, let end = lines.popLast(),
      String(end) == "end \(Self.checksum(bytes[..<end.startIndex]))"
    else { throw Fault(text: "is incomplete") }
    lines.removeFirst()
    var contents = Contents()
    guard let key = lines.popFirst().flatMap({ Self.key(String($0)) }) else {
      throw Fault(text: "has no key")
    }
    contents.key = key
    var overrides: [CostOverrides.Subject: CostOverride] = [:]
    for line in lines {
      guard
        let (subject, override) = Self.override(line, boot, endsTogether: header == Self.oldHeader)
      else { throw Fault(text: "has an invalid line") }
      // An override that ended with an earlier boot is empty.
      if !override.isEmpty { overrides[subject] = override }
    }
    contents.overrides = CostOverrides(overrides)
    return contents
  }

  /// - Returns: `nil` for an invalid line, or an empty override if all its settings have ended.
  private static func override(
    _ line: ArraySlice<UInt8>, _ boot: String, endsTogether: Bool
  ) -> (CostOverrides.Subject, CostOverride)? {
    let words = line.split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
    guard words.count >= 3 else { return nil }
    let (kind, name) = (String(words[0]), String(words[1]))
    let subject: CostOverrides.Subject
    switch kind {
    case "link" where ResolvConf.isLinkName(name, orAlternative: true): subject = .link(name)
    case "network":
      guard let network = NetworkHash(name) else { return nil }
      subject = .network(network)
    case "machine" where name == "-": subject = .machine
    default: return nil
    }
    var override = CostOverride(user: 0)
    // The properties to which the next word for an end applies.
    var spoken: [WritableKeyPath<CostOverride, CostOverride.Setting?>] = []
    for word in words.dropFirst(2) {
      guard let equals = word.firstIndex(of: UInt8(ascii: "=")) else { return nil }
      let (name, value) = (String(word[..<equals]), String(word[(equals + 1)...]))
      switch name {
      case "user":
        guard let user = UInt32(value) else { return nil }
        override.user = user
      case "name":
        guard let name = Self.bytes(hexadecimal: value) else { return nil }
        override.name = String(decoding: name, as: UTF8.self)
      case "constrained", "expensive", "assist":
        guard let isOn = Bool(value), (name == "assist") == (subject == .machine) else {
          return nil
        }
        let property = Self.property(name)
        override[keyPath: property] = CostOverride.Setting(isOn)
        spoken = endsTogether ? spoken + [property] : [property]
      case "time", "boot", "left":
        guard !spoken.isEmpty, let end = Self.end(name, value) else { return nil }
        // If boots cannot be distinguished, the override counts as from another boot.
        let isOver = end == .boot && (boot.isEmpty || value != boot)
        for property in spoken {
          override[keyPath: property]?.end = end
          if isOver { override[keyPath: property] = nil }
        }
      default: return nil
      }
    }
    return (subject, override)
  }

  private static func property(
    _ name: String
  ) -> WritableKeyPath<CostOverride, CostOverride.Setting?> {
    switch name {
    case "constrained": \.constrained
    case "expensive": \.expensive
    default: \.assist
    }
  }

  /// Returns a name in hexadecimal, because a name may contain spaces and line breaks.
  private static func hexadecimal(_ name: String) -> String {
    name.utf8.map { NetworkHash(UInt64($0)).description.suffix(2) }.joined()
  }

  private static func bytes(hexadecimal digits: some Collection<Character>) -> [UInt8]? {
    let values = digits.compactMap(\.hexDigitValue)
    guard values.count == digits.count, values.count.isMultiple(of: 2) else { return nil }
    return stride(from: 0, to: values.count, by: 2).map { UInt8(values[$0] << 4 | values[$0 + 1]) }
  }

  private static func end(_ name: String, _ value: String) -> CostOverride.End? {
    switch name {
    case "time": Int64(value).map { .time(WallTime(microseconds: $0)) }
    case "boot": .boot
    default: .left
    }
  }

  /// Parses a line such as `key 00112233445566778899aabbccddeeff`.
  private static func key(_ line: String) -> NetworkKey? {
    guard line.hasPrefix("key "), let bytes = self.bytes(hexadecimal: line.dropFirst(4)),
      bytes.count == NetworkKey.length
    else { return nil }
    return NetworkKey(bytes: bytes)
  }

  /// Returns a checksum that detects a torn or edited file. It does not protect against forgery.
  static func checksum(_ bytes: ArraySlice<UInt8>) -> String {
    NetworkHash(SipHash(key: []).hash(bytes)).description
  }
}

extension String {
  fileprivate init(_ bytes: ArraySlice<UInt8>) { self.init(decoding: bytes, as: UTF8.self) }
}
