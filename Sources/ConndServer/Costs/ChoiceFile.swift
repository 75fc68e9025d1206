import Connectivity
import ConnectivityRules
import Glibc
import Logging
import UnixTransport

/// Keeps what users have said of links and networks, and the machine's key for networks.
///
/// The file is text: a line that names the format, one for the key, one for each choice, and the checksum of all that. It is
/// replaced in one step. One that cannot be read is put aside, and connd begins anew. Not thread-safe.
final class ChoiceFile {
  /// What is kept.
  struct Contents: Hashable {
    var key = NetworkKey()
    var choices = CostChoices()
  }

  private static let header = "connd networks 2"
  /// There all that is said of one subject ends together.
  private static let oldHeader = "connd networks 1"
  /// In octets; room for more choices than anybody makes.
  private static let largest = 1 << 20

  private let path: String
  private let boot: String
  private let logger: Logger
  /// What the file holds; `nil` where it could not be read or written.
  private var saved: Contents?

  /// - Parameters:
  ///   - path: where the file is; its directory must be there.
  ///   - boot: what tells this start of the machine from others.
  init(path: String, boot: String, logger: Logger) {
    self.path = path
    self.boot = boot
    self.logger = logger
  }

  /// What tells this start of the machine from others: the kernel's own word (proc_sys_kernel(5)), or, where a sandbox hides that,
  /// a mark in a directory that does not outlive the machine's run. Empty where there is neither.
  ///
  /// - Parameter runtimeDirectory: where the mark is; `nil` where there is none.
  static func bootID(
    runtimeDirectory: String?, kernel: String = "/proc/sys/kernel/random/boot_id"
  ) -> String {
    func word(of file: String) -> String? {
      guard let bytes = try? contents(of: file, most: 64) else { return nil }
      let word = String(decoding: bytes, as: UTF8.self).filter { $0.isHexDigit || $0 == "-" }
      return word.isEmpty ? nil : word
    }
    if let word = word(of: kernel) { return word }
    guard let mark = runtimeDirectory.map({ "\($0)/connd.boot" }) else { return "" }
    if let word = word(of: mark) { return word }
    let new = NetworkHash(.random(in: .min ... .max)).description
    let descriptor = open(mark, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard descriptor >= 0 else { return "" }
    defer { close(descriptor) }
    return RecordFrame.write(Array(new.utf8), to: descriptor) ? new : ""
  }

  /// What an earlier run has kept; what has never been there, or cannot be read, is new, and its key is kept from now on.
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
      bytes = try contents(of: self.path, most: Self.largest, followsLinks: false)
    } catch {
      if error.code != ENOENT { self.putAside("cannot be read: \(error)") }
      return nil
    }
    do throws(Fault) {
      return try Self.read(bytes, boot: self.boot)
    } catch {
      self.putAside(error.words)
      return nil
    }
  }

  private func putAside(_ why: String) {
    let aside = "\(self.path).damaged"
    let isAside = rename(self.path, aside) == 0
    self.logger.warning(
      "what users said of networks \(why); it \(isAside ? "is" : "cannot be") put aside, and forgotten",
      metadata: ["path": "\(self.path)", "aside": "\(aside)"])
  }

  /// Saves what is not saved yet.
  ///
  /// - Returns: whether it is kept: on a full disk the file stays as it was.
  func keep(_ contents: Contents) -> Bool {
    contents == self.saved || self.save(contents)
  }

  private func save(_ contents: Contents) -> Bool {
    let temporary = "\(self.path).new"
    let descriptor = open(
      temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0o600)
    let bytes = Array(Self.text(contents, boot: self.boot).utf8)
    let isWritten =
      descriptor >= 0 && RecordFrame.write(bytes, to: descriptor) && fsync(descriptor) == 0
    let error = SystemError()
    if descriptor >= 0 { close(descriptor) }
    if isWritten, rename(temporary, self.path) == 0 {
      self.saved = contents
      return true
    }
    self.logger.error(
      "what users say of networks cannot be kept, and holds until connd ends",
      metadata: ["path": "\(self.path)", "error": "\(error)"])
    unlink(temporary)
    return false
  }

  // MARK: - The form

  /// Why a text is none of ours.
  struct Fault: Error, Hashable {
    var words: String
  }

  static func text(_ contents: Contents, boot: String) -> String {
    let choices = contents.choices.all.map { self.line($0, $1, boot) }.sorted()
    let key = contents.key.bytes.map { NetworkHash(UInt64($0)).description.suffix(2) }.joined()
    let body = ([self.header, "key \(key)"] + choices).map { $0 + "\n" }.joined()
    return body + "end \(self.checksum(Array(body.utf8)[...]))\n"
  }

  private static func line(
    _ subject: CostChoices.Subject, _ choice: CostChoice, _ boot: String
  ) -> String {
    var words =
      switch subject {
      case .link(let name): ["link", name]
      case .network(let network): ["network", network.description]
      }
    words.append("user=\(choice.user)")
    // An end is that of the word before it.
    for (name, setting) in [("constrained", choice.constrained), ("expensive", choice.expensive)] {
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

  /// A thousand lines are to cost a start nothing, so this is about octets, not about what people take for characters.
  static func read(_ bytes: [UInt8], boot: String) throws(Fault) -> Contents {
    var lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)[...]
    let header = lines.first.map { String($0) }
    guard header == Self.header || header == Self.oldHeader else {
      throw Fault(words: "is not of this version")
    }
    // The last line ends, too.
    guard lines.popLast()?.isEmpty ?? false, let end = lines.popLast(),
      String(end) == "end \(Self.checksum(bytes[..<end.startIndex]))"
    else { throw Fault(words: "is not whole") }
    lines.removeFirst()
    var contents = Contents()
    guard let key = lines.popFirst().flatMap({ Self.key(String($0)) }) else {
      throw Fault(words: "has no key")
    }
    contents.key = key
    var choices: [CostChoices.Subject: CostChoice] = [:]
    for line in lines {
      guard
        let (subject, choice) = Self.choice(line, boot, endsTogether: header == Self.oldHeader)
      else { throw Fault(words: "has a line that makes no sense") }
      // What was said until another start of the machine is over.
      if !choice.isEmpty { choices[subject] = choice }
    }
    contents.choices = CostChoices(choices)
    return contents
  }

  /// - Returns: `nil` for what makes no sense; an empty choice where all of it is over.
  private static func choice(
    _ line: ArraySlice<UInt8>, _ boot: String, endsTogether: Bool
  ) -> (CostChoices.Subject, CostChoice)? {
    let words = line.split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
    guard words.count >= 3 else { return nil }
    let (kind, name) = (String(words[0]), String(words[1]))
    let subject: CostChoices.Subject
    switch kind {
    case "link" where ResolvConf.isLinkName(name, orAlternative: true): subject = .link(name)
    case "network":
      guard let network = NetworkHash(name) else { return nil }
      subject = .network(network)
    default: return nil
    }
    var choice = CostChoice(user: 0)
    // Of what the next end is.
    var spoken: [WritableKeyPath<CostChoice, CostChoice.Setting?>] = []
    for word in words.dropFirst(2) {
      guard let equals = word.firstIndex(of: UInt8(ascii: "=")) else { return nil }
      let (name, value) = (String(word[..<equals]), String(word[(equals + 1)...]))
      switch name {
      case "user":
        guard let user = UInt32(value) else { return nil }
        choice.user = user
      case "constrained", "expensive":
        guard let isOn = Bool(value) else { return nil }
        let property = name == "constrained" ? \CostChoice.constrained : \CostChoice.expensive
        choice[keyPath: property] = CostChoice.Setting(isOn)
        spoken = endsTogether ? spoken + [property] : [property]
      case "time", "boot", "left":
        guard !spoken.isEmpty, let end = Self.end(name, value) else { return nil }
        // Where one start cannot be told from another, it was another.
        let isOver = end == .boot && (boot.isEmpty || value != boot)
        for property in spoken {
          choice[keyPath: property]?.end = end
          if isOver { choice[keyPath: property] = nil }
        }
      default: return nil
      }
    }
    return (subject, choice)
  }

  private static func end(_ name: String, _ value: String) -> CostChoice.End? {
    switch name {
    case "time": Int64(value).map { .time(Timestamp(microseconds: $0)) }
    case "boot": .boot
    default: .left
    }
  }

  /// `key 00112233445566778899aabbccddeeff`
  private static func key(_ line: String) -> NetworkKey? {
    let digits = Array(line.dropFirst(4))
    guard line.hasPrefix("key "), digits.count == 2 * NetworkKey.length else { return nil }
    let bytes = stride(from: 0, to: digits.count, by: 2).compactMap { place in
      digits[place].hexDigitValue.flatMap { high in
        digits[place + 1].hexDigitValue.map { UInt8(high << 4 | $0) }
      }
    }
    return bytes.count == NetworkKey.length ? NetworkKey(bytes: bytes) : nil
  }

  /// It tells a torn or edited file from a whole one; nobody is kept from anything by it.
  static func checksum(_ bytes: ArraySlice<UInt8>) -> String {
    NetworkHash(SipHash(key: []).hash(bytes)).description
  }
}

extension String {
  fileprivate init(_ bytes: ArraySlice<UInt8>) { self.init(decoding: bytes, as: UTF8.self) }
}
