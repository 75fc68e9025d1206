import Connectivity
import ConnectivityMonitor
import ConnectivityProtocol
import Glibc
import TestKit
import Testing

@testable import ConnctlCommands

/// Manual pages, articles and how-tos agree with the code.
@Suite("Documentation")
struct DocumentationTests {
  private static func text(_ path: String) throws -> String {
    let file = try #require(fopen(Checkout.path(path), "re"), "\(path)")
    defer { fclose(file) }
    var bytes = [UInt8]()
    var piece = [UInt8](repeating: 0, count: 65_536)
    while case let count = fread(&piece, 1, piece.count, file), count > 0 {
      bytes += piece.prefix(count)
    }
    return String(decoding: bytes, as: UTF8.self)
  }

  /// The paths of the files below the root that match a pattern of glob(7).
  private static func files(_ pattern: String) -> [String] {
    var found = glob_t()
    defer { globfree(&found) }
    guard glob(Checkout.path(pattern), 0, nil, &found) == 0 else { return [] }
    return (0..<Int(found.gl_pathc)).compactMap { index in
      found.gl_pathv[index].map { String(String(cString: $0).dropFirst(Checkout.path("").count)) }
    }
  }

  /// The second argument of each `ChangeCause(…)`, including the values of a variable of that name.
  private static func changesInCode() throws -> Set<String> {
    // Regexes are not Sendable, so they are created when used.
    let places = [
      #/\bChangeCause\(\s*[^,:()]+,\s*(?<words>[^,:)]*(?::[^,:)]*)?)[,)]/#,
      #/\bvar change: String \{(?<words>(?s:.*?))\n  \}/#,
      #/\blet (?:change|set) =(?<words>[^\n]*)/#,
    ]
    var words: Set<String> = []
    for path in Self.files("Sources/ConnectivityRules/*/*.swift")
      + Self.files("Sources/ConndServer/*/*.swift")
    {
      let text = try Self.text(path)
      for place in places {
        for match in text.matches(of: place) {
          words.formUnion(match.words.matches(of: #/"([a-z][A-Za-z]*)"/#).map { String($0.1) })
        }
      }
    }
    return words
  }

  private static func words(
    of path: String, from start: String, to end: String, _ word: Regex<(Substring, Substring)>
  ) throws -> Set<String> {
    let text = try Self.text(path)
    let section = try #require(text.split(separator: start, maxSplits: 1).dropFirst().first)
    let list = try #require(section.split(separator: end, maxSplits: 1).first)
    return Set(list.matches(of: word).map { String($0.1) })
  }

  @Test("T5 every value of a cause's change is documented, and no other is")
  func changes() throws {
    let code = try Self.changesInCode()
    // One for each form in which the code has it.
    #expect(code.isSuperset(of: ["carrierLost", "addressTentative", "routeAdded", "diedBefore"]))
    #expect(code.isSuperset(of: ["graceEnded", "pathChanged", "resynchronised"]))

    let manual = try Self.words(
      of: "man/connctl-json.5", from: "\n.It change\n", to: "there may be more",
      #/\b([a-z]+[A-Z]\w*|dormant|started|resumed|resynchronised|reloaded)\b/#)
    #expect(manual == code, "\(manual.symmetricDifference(code))")
    let api = try Self.words(
      of: "Sources/ConnectivityProtocol/Protos/connectivity/v1/connectivity.proto",
      from: "  //   any            ", to: "  string change", #/\b([a-z][A-Za-z]+)\b/#)
    #expect(api == code, "\(api.symmetricDifference(code))")
  }

  @Test("the error of a missing trait is in the file that is compiled first, and names the trait")
  func trait() throws {
    let folder = "Sources/ConnectivityClient/"
    let file = folder + "BuildTrait.swift"
    let sources = ["*", "*/*"].flatMap { Self.files("\(folder)\($0).swift") }
    #expect(sources.count > 20 && sources.min() == file)
    #expect(try Self.text(file).contains(#".package(…, traits: [\"Client\"])"#))
    #expect(try Self.text("Package.swift").contains("let client = \"Client\"\n"))
  }

  @Test("make uninstall stops and disables the units, and says how to remove what remains")
  func uninstall() throws {
    let commands = try Command.run(["make", "-C", Checkout.path(""), "--dry-run", "uninstall"])
    let units = try #require(commands.firstMatch(of: /manager disable --now ([^\n]*)/)).1
    #expect(units.contains("connd.service") && units.contains("connd.socket"), "\(units)")
    #expect(commands.contains("The configuration, the overrides and the users remain."))
    #expect(
      commands.contains(
        "rm -rf /etc/connd /var/lib/connd /var/lib/private/connd; userdel _connd; groupdel connd"))
    let purge = try Self.text("packaging/debian/connd.postrm")
    for removal in ["rm -rf /var/lib/connd /var/lib/private/connd", "userdel _connd", "groupdel"] {
      #expect(purge.contains(removal))
    }
  }

  @Test("packages and tags have the programs' version")
  func version() throws {
    #expect(try Self.text("VERSION") == Version.string + "\n")
    #expect(try Self.text("CHANGELOG.md").contains("\n## \(Version.string) ("))
  }

  @Test(
    "how-tos for maintainers name files that exist",
    arguments: Self.files("docs/how-to/add-*.md") + [".github/CONTRIBUTING.md"])
  func namedFiles(page: String) throws {
    let names = try Self.text(page).matches(
      of: #/`((?:Sources|Tests|man|config|docs|dev)/[^`\s]+|[\w+]+\.swift)`/#
    ).map { String($0.1) }
    #expect(names.count >= 5)
    for name in names {
      let isPath = name.contains("/")
      let folders = isPath ? [""] : ["Sources/*/", "Sources/*/*/", "Tests/*/*/*/"]
      #expect(folders.contains { !Self.files($0 + name).isEmpty }, "\(name)")
    }
  }

  // MARK: - Media

  @Test(
    "K5 every medium has its own number and name in the API, and a reason if it is prohibited",
    arguments: NetworkMedium.allCases)
  func api(of medium: NetworkMedium) {
    let message = Connectivity_V1_Medium(medium)
    #expect("\(message)" == medium.rawValue, "connectivity.proto: number \(medium.traits.number)")
    #expect(NetworkMedium(message) == medium)
    #expect(NetworkUnavailableError.Reason(medium).rawValue == medium.rawValue)
  }

  @Test("K5 I8 the manual of connd.yaml lists every medium, and the metered ones")
  func manualOfMedia() throws {
    for (start, media) in [
      ("\nThe link's medium, one of\n", NetworkMedium.allCases),
      (
        "\nDefault: true for the media\n",
        NetworkMedium.allCases.filter { $0.traits.isMetered == true }
      ),
    ] {
      let words = try Self.words(of: "man/connd.yaml.5", from: start, to: "\n", #/(\w{3,})/#)
      #expect(words == Set(media.map(\.rawValue)), "man/connd.yaml.5")
    }
  }

  @Test("K5 a sign shows one medium, and media have different places")
  func signs() {
    let media = NetworkMedium.allCases.map(\.traits)
    #expect(Set(media.map(\.place)).count == media.count)
    for signs in [
      media.flatMap(\.signs.kinds), media.flatMap(\.signs.deviceTypes),
      media.flatMap(\.signs.lineDrivers), media.flatMap(\.signs.drivers),
      media.flatMap { $0.signs.hardwareTypes.keys.map { "\($0)" } },
    ] { #expect(Set(signs).count == signs.count) }
  }

  @Test("the code map names the only places of the daemon that use protobuf")
  func protobuf() throws {
    let users = try Self.files("Sources/ConndServer/*/*.swift").filter {
      try Self.text($0).contains("\nimport ConnectivityProtocol\n")
    }
    #expect(users.contains("Sources/ConndServer/Server/WatchService.swift"))
    #expect(
      users.filter { !$0.hasPrefix("Sources/ConndServer/Server/") }
        == ["Sources/ConndServer/Publishing/Published.swift"])
    #expect(try Self.text("docs/code-map.md").contains("`Publishing/Published.swift`"))
  }

  // MARK: - Limits

  private static let limits = "docs/limits.md"

  /// A number in one of several notations.
  private static func number(_ text: Substring) -> Int? {
    let digits = text.filter { $0 != "_" }
    if digits.hasSuffix("KiB") { return Int(digits.dropLast(3)).map { $0 << 10 } }
    if digits.hasSuffix("MiB") { return Int(digits.dropLast(3)).map { $0 << 20 } }
    let parts = digits.split(separator: " << ").compactMap { Int($0) }
    return parts.count == 2 ? parts[0] << parts[1] : parts.first
  }

  private static func numbers(
    of path: String, _ line: Regex<(Substring, Substring, Substring)>
  ) throws -> [String: Int] {
    let found = try Self.text(path).matches(of: line).map {
      (String($0.1), try #require(Self.number($0.2), "\($0.0)"))
    }
    return Dictionary(found) { first, _ in first }
  }

  @Test("D4 every configurable limit is in the article and in connd.yaml, with its default")
  func configuredLimits() throws {
    let code = try Self.numbers(
      of: "Sources/ConndServer/Configuration/Limits.swift",
      #/package var (\w+) = ([\d_]+(?: << \d+)?)\n/#)
    #expect(code.count == 13)
    let article = try Self.numbers(of: Self.limits, #/\n\| `(\w+)` \| ([\d_]+(?: << \d+)?) \|/#)
    #expect(article == code)
    let text = try Self.text("config/connd.yaml")
    let example = try #require(text.split(separator: "\n#limits:").dropFirst().first)
    for (key, value) in code {
      let match = example.firstMatch(of: try Regex("#  \(key): (\\d+([KM]iB)?)\\b"))
      #expect(match?.output[1].substring.flatMap(Self.number) == value, "\(key)")
    }
  }

  @Test("D4 every fixed bound in the article agrees with the code")
  func otherLimits() throws {
    let rows = try Self.text(Self.limits).matches(of: #/\n\| `(\w+)\.(\w+)` \| ([^|]+) \|/#)
    #expect(rows.count == 36)
    for row in rows {
      let file = try #require(
        (Self.files("Sources/*/*/\(row.1).swift") + Self.files("Sources/*/\(row.1).swift")).first)
      let declaration = try #require(
        try Self.text(file).firstMatch(of: try Regex("let \(row.2)\\b[^\\n]*=(?s:.{0,80})")))
      let value = row.3.trimmingPrefix(" ")
      #expect(declaration.output[0].substring?.contains(value) == true, "\(row.1).\(row.2)")
    }
  }
}
