import Glibc
import Testing

@testable import ConnctlCommands

/// The manual page and the list of the stable surface name what the code says.
@Suite("Documentation")
struct DocumentationTests {
  private static let root = #filePath.split(separator: "/").dropLast(3).reduce("") { "\($0)/\($1)" }

  private static func text(_ path: String) throws -> String {
    let file = try #require(fopen("\(Self.root)/\(path)", "re"), "\(path)")
    defer { fclose(file) }
    var bytes = [UInt8]()
    var piece = [UInt8](repeating: 0, count: 65_536)
    while case let count = fread(&piece, 1, piece.count, file), count > 0 {
      bytes += piece.prefix(count)
    }
    return String(decoding: bytes, as: UTF8.self)
  }

  /// The paths of the files, below the root, that a pattern of glob(7) names.
  private static func files(_ pattern: String) -> [String] {
    var found = glob_t()
    defer { globfree(&found) }
    guard glob("\(Self.root)/\(pattern)", 0, nil, &found) == 0 else { return [] }
    return (0..<Int(found.gl_pathc)).compactMap { index in
      found.gl_pathv[index].map { String(String(cString: $0).dropFirst(Self.root.count + 1)) }
    }
  }

  /// The second argument of each `Cause(…)`, and what is put there by a variable of that name.
  private static func changesInCode() throws -> Set<String> {
    // Regexes are not Sendable: they are made where they are used.
    let places = [
      #/\bCause\(\s*[^,:()]+,\s*(?<words>[^,:)]*(?::[^,:)]*)?)[,)]/#,
      #/\bvar change: String \{(?<words>(?s:.*?))\n  \}/#, #/\blet change =(?<words>[^\n]*)/#,
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

  @Test("T5 every word of a cause's change is documented, and no other")
  func changes() throws {
    let code = try Self.changesInCode()
    // One for each way in which the code says it.
    #expect(code.isSuperset(of: ["carrierLost", "addressTentative", "routeAdded", "diedBefore"]))
    #expect(code.isSuperset(of: ["graceEnded", "pathChanged", "resynchronised", "holdEnded"]))

    let manual = try Self.words(
      of: "man/connctl.1", from: "\n.It change\n", to: "there may be more",
      #/\b([a-z]+[A-Z]\w*|dormant|started|resumed|resynchronised|reloaded)\b/#)
    #expect(manual == code, "\(manual.symmetricDifference(code))")
    let surface = try Self.words(
      of: "Sources/ConnectivityClient/ConnectivityClient.docc/StableSurface.md",
      from: "The words of `change` in a cause:", to: "\n\n", #/`(\w+)`/#)
    #expect(surface == code, "\(surface.symmetricDifference(code))")
  }
}
