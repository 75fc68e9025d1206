import Connectivity
import LinuxSupport
import Netlink

/// Keeps only the lines and file names that connd evaluates. Unknown files are removed.
extension Anonymizer {
  /// Returns a query and its answer with substitutes, or `nil` for an unknown file.
  func file(
    _ question: FileQuestion, _ answer: [UInt8]
  ) -> (question: FileQuestion, answer: [UInt8])? {
    let text = String(decoding: answer, as: UTF8.self)
    switch question.kind {
    case .linkIndex:
      let digits = answer.allSatisfy { (0x30...0x39).contains($0) } && answer.count <= 10
      return (FileQuestion(.linkIndex, self.linkName(question.subject)), digits ? answer : [])
    case .linkName:
      guard UInt32(question.subject) != nil else { return nil }
      return (question, answer.isEmpty ? [] : Array(self.linkName(text).utf8))
    case .existence, .page, .linkTarget, .rootPage:
      return self.device(question, text) ?? self.line(question, text)
        ?? self.sessions(question, text)
    case .names:
      if let directory = ResolverDirectory(question.subject) {
        let names = answer.split(separator: 0).map { String(decoding: $0, as: UTF8.self) }
        return (
          question,
          names.compactMap { self.name($0, in: directory) }.flatMap { Array($0.utf8) + [0] }
        )
      }
      return self.device(question, text) ?? self.line(question, text)
    case .file: return self.resolverFile(question, text)
    }
  }

  // MARK: - sysfs

  private func device(
    _ question: FileQuestion, _ text: String
  ) -> (question: FileQuestion, answer: [UInt8])? {
    let root = "/sys/class/net/"
    guard question.subject.hasPrefix(root) else { return nil }
    let parts = question.subject.dropFirst(root.count).split(separator: "/")
    guard let link = parts.first else { return nil }
    var path = root + self.linkName(String(link))
    for part in parts.dropFirst() {
      if let lower = self.lower(part) {
        path += "/\(lower)"
      } else if Self.deviceFiles.contains(part) {
        path += "/\(part)"
      } else {
        return nil
      }
    }
    return (
      FileQuestion(question.kind, path), Array(self.content(question.kind, parts.last, text).utf8)
    )
  }

  private static let deviceFiles: Set<Substring> = Anonymizer.usbCodes.union([
    "ifindex", "uevent", "phy80211", "device", "driver",
  ])
  private static let usbCodes: Set<Substring> = [
    "bInterfaceClass", "bInterfaceSubClass", "bInterfaceProtocol",
  ]

  /// Returns only the links of PPPoE sessions.
  private func sessions(
    _ question: FileQuestion, _ text: String
  ) -> (question: FileQuestion, answer: [UInt8])? {
    guard question == FileQuestion(.page, "/proc/self/net/pppoe") else { return nil }
    var lines = ["Id Address Device"]
    for line in text.split(separator: "\n").dropFirst() {
      let fields = line.split(separator: " ")
      if fields.count == 3 { lines.append("0 0 \(self.linkName(String(fields[2])))") }
    }
    return (question, Array(lines.map { $0 + "\n" }.joined().utf8))
  }

  /// Returns an anonymised query and answer about a serial line of a ppp link or the line's driver,
  /// or `nil` for other files.
  private func line(
    _ question: FileQuestion, _ text: String
  ) -> (question: FileQuestion, answer: [UInt8])? {
    var parts = question.subject.split(separator: "/")
    let isLock = { (name: Substring) in name.hasPrefix("LCK..") && Self.isLine(name.dropFirst(5)) }
    let answer: String
    switch (question.kind, parts.first, parts.count) {
    case (.names, "run", 2) where parts[1] == "lock":
      answer = text.split(separator: "\0").filter(isLock).map { "\($0)\0" }.joined()
    case (.rootPage, "run", 3) where parts[1] == "lock" && isLock(parts[2]):
      answer = text.filter { $0.isASCII && $0.isNumber }
    case (.page, "run", 2...3) where parts.last?.hasSuffix(".pid") ?? false:
      guard parts.count == 2 || parts[1] == "pppd", let name = parts.popLast() else { return nil }
      parts.append("\(self.linkName(String(name.dropLast(4)))).pid")
      answer = text.filter { $0.isASCII && $0.isNumber }
    case (.linkTarget, "sys", 6) where parts[1...2] == ["class", "tty"] && Self.isLine(parts[3]):
      guard parts[4...] == ["device", "driver"] else { return nil }
      answer = self.content(.linkTarget, nil, text)
    default: return nil
    }
    let path = parts.map { "/\($0)" }.joined()
    return (FileQuestion(question.kind, path), Array(answer.utf8))
  }

  /// Whether a name is a driver's name for a serial line, such as `ttyUSB2`.
  private static func isLine(_ name: Substring) -> Bool {
    guard name.hasPrefix("tty") else { return false }
    let kind = name.dropFirst(3).prefix { $0.isASCII && $0.isLetter }
    let number = name.dropFirst(3 + kind.count)
    return kind.count <= 4 && (1...3).contains(number.count)
      && number.allSatisfy { $0.isASCII && $0.isNumber }
  }

  private func lower(_ name: Substring) -> String? {
    let prefix = "lower_"
    return name.hasPrefix(prefix)
      ? prefix + self.linkName(String(name.dropFirst(prefix.count))) : nil
  }

  private func content(_ kind: FileQuestion.Kind, _ name: Substring?, _ text: String) -> String {
    switch kind {
    case .page where name == "ifindex":
      return UInt32(text.prefix { $0 != "\n" }).map { "\($0)\n" } ?? ""
    case .page where name == "uevent":
      let lines = text.split(separator: "\n").filter { line in
        line.hasPrefix("DEVTYPE=") && line.dropFirst(8).isKernelWord
      }
      return lines.map { "\($0)\n" }.joined()
    case .page where name.map(Self.usbCodes.contains) ?? false:
      let code = text.prefix { $0 != "\n" }
      return code.count == 2 && UInt8(code, radix: 16) != nil ? "\(code)\n" : ""
    // The driver's name.
    case .linkTarget:
      return text.split(separator: "/").last.map { $0.isKernelWord ? "\($0)" : "" } ?? ""
    case .names:
      return text.split(separator: "\0").compactMap(self.lower).map { "\($0)\0" }.joined()
    default: return ""
    }
  }

  // MARK: - Resolvers

  /// How the files of a directory are named.
  private enum ResolverDirectory {
    /// By the index of a link. The files contain assignments.
    case index
    /// By a link and a program. The files are in the format of resolv.conf.
    case link

    init?(_ path: String) {
      switch path {
      case "/run/systemd/resolve/netif", "/run/systemd/netif/links": self = .index
      case "/run/resolvconf/interface", "/run/resolvconf/interfaces": self = .link
      default: return nil
      }
    }
  }

  private func name(_ name: String, in directory: ResolverDirectory) -> String? {
    switch directory {
    case .index: UInt32(name) == nil ? nil : name
    case .link: name.hasPrefix(".") ? nil : self.linkName(name)
    }
  }

  private func resolverFile(
    _ question: FileQuestion, _ text: String
  ) -> (question: FileQuestion, answer: [UInt8])? {
    let path = question.subject
    let known = [
      DNSFiles.main, "/run/systemd/resolve/resolv.conf", "/run/NetworkManager/no-stub-resolv.conf",
    ]
    if known.contains(path) { return (question, Array(self.resolvConf(text).utf8)) }
    guard let end = path.lastIndex(of: "/"),
      let directory = ResolverDirectory(String(path[..<end])),
      let name = self.name(String(path[path.index(after: end)...]), in: directory)
    else { return nil }
    let content =
      switch directory {
      case .index: self.assignments(text)
      case .link: self.resolvConf(text)
      }
    return (FileQuestion(.file, "\(path[..<end])/\(name)"), Array(content.utf8))
  }

  private func resolvConf(_ text: String) -> String {
    var lines: [String] = []
    for line in text.split(whereSeparator: \.isNewline) {
      let text = line.split { $0 == " " || $0 == "\t" }
      guard let keyword = text.first, !line.hasPrefix(" "), !line.hasPrefix("\t") else { continue }
      switch keyword {
      case "nameserver":
        lines += self.servers(text.dropFirst().prefix(1)).map { "nameserver \($0)" }
      case "search", "domain":
        lines.append(([String(keyword)] + self.domains(text.dropFirst())).joined(separator: " "))
      default: continue
      }
    }
    return lines.map { $0 + "\n" }.joined()
  }

  /// Returns the lines of systemd's files that name servers and domains.
  private func assignments(_ text: String) -> String {
    var lines: [String] = []
    for line in text.split(whereSeparator: \.isNewline) {
      guard let end = line.firstIndex(of: "=") else { continue }
      let words = line[line.index(after: end)...].split(separator: " ")
      switch line[..<end] {
      case "SERVERS", "DNS":
        lines.append("\(line[..<end])=\(self.servers(words).joined(separator: " "))")
      case "DOMAINS": lines.append("DOMAINS=\(self.domains(words).joined(separator: " "))")
      default: continue
      }
    }
    return lines.map { $0 + "\n" }.joined()
  }

  private func servers(_ words: some Sequence<Substring>) -> [String] {
    ResolvConf.servers(words).map { self.server($0).description }
  }

  private func domains(_ words: some Sequence<Substring>) -> [String] {
    ResolvConf.domains(words).map(self.domain)
  }
}
