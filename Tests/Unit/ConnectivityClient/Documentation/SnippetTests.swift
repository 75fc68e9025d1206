import TestKit
import Testing

/// The documentation's examples are compiled code.
@Suite("Documentation")
struct SnippetTests {
  /// The articles, and the files of `Examples/Sources/Snippets` that contain their examples. They
  /// are compiled outside this package, as an application compiles them.
  private static let sources = [
    ("README.md", "README"),
    (
      "Sources/ConnectivityClient/ConnectivityClient.docc/ConnectivityClient.md",
      "ConnectivityClient"
    ),
    (
      "Sources/ConnectivityMonitor/ConnectivityMonitor.docc/ConnectivityMonitor.md",
      "ConnectivityMonitor"
    ),
    (
      "Sources/ConnectivityMonitor/ConnectivityMonitor.docc/FollowTheNetwork.md",
      "FollowTheNetwork"
    ),
    ("Sources/ConnectivityClient/ConnectivityClient.docc/GuardAnyChannel.md", "GuardAnyChannel"),
    (
      "Sources/ConnectivityClient/ConnectivityClient.docc/NetworkAwareChannels.md",
      "NetworkAwareChannels"
    ),
    ("Sources/ConnectivityClient/ConnectivityClient.docc/SaveData.md", "SaveData"),
    (
      "Sources/ConnectivityTestKit/ConnectivityTestKit.docc/ConnectivityTestKit.md",
      "ConnectivityTestKit"
    ),
  ]

  @Test("each example in an article is compiled in another package", arguments: Self.sources)
  func articles(article: String, snippets: String) throws {
    let article = try Self.lines(article)
    let code = try Self.lines("Examples/Sources/Snippets/\(snippets).swift")
    let examples = Self.blocks(article, from: { $0 == "```swift" }, to: { $0 == "```" })
    let compiled = Self.blocks(
      code, from: { $0.hasPrefix("// snippet: ") }, to: { $0 == "// end" })
    #expect(!examples.isEmpty)
    for example in examples {
      #expect(compiled.contains(example), "not compiled:\n\(example.joined(separator: "\n"))")
    }
    for snippet in compiled {
      #expect(examples.contains(snippet), "in no article:\n\(snippet.joined(separator: "\n"))")
    }
  }

  private static func lines(_ path: String) throws -> [String] {
    try Command.run(["cat", Checkout.path(path)]).split(
      separator: "\n", omittingEmptySubsequences: false
    )
    .map(String.init)
  }

  /// The text between two marks, without the indentation of the first mark.
  private static func blocks(
    _ lines: [String], from begins: (String) -> Bool, to ends: (String) -> Bool
  ) -> [[String]] {
    var blocks: [[String]] = []
    var open: (indentation: Int, lines: [String])?
    for line in lines {
      let indentation = line.prefix { $0 == " " }.count
      let text = String(line.dropFirst(indentation))
      if let block = open {
        if ends(text) {
          blocks.append(block.lines)
          open = nil
        } else {
          open?.lines.append(String(line.dropFirst(min(indentation, block.indentation))))
        }
      } else if begins(text) {
        open = (indentation, [])
      }
    }
    return blocks
  }
}
