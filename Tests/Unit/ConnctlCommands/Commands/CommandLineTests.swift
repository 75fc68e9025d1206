import ArgumentParser
import TestKit
import TestTraits
import Testing

@testable import ConnctlCommands

/// Improbable command lines. (Tests/Oracles/fuzz also fuzzes the parsing of single arguments.)
@Suite("Improbable command lines", .blocking)
struct CommandLineTests {
  private static let words = [
    "status", "watch", "path", "explain", "links", "connections", "history", "stats", "guard", "is",
    "wait",
    "help",
    "--json", "--socket", "--socket=", "--help", "--version", "--timeout", "--timeout=5s", "--mark",
    "--local", "--interface", "--since", "--forbid-metered", "-h", "--", "-", "", "online",
    "not-wifi", "not-", "500ms", "1e3", "-1", "0x10", "0x", "18446744073709551616", "192.0.2.7",
    "fe80::1%eth0", "::", "::ffff:1.2.3.4", "=", "--=", "é", "\u{0}", "\u{1F600}", "a b",
  ]

  @Test(
    "every one is either accepted or refused with an error text", arguments: 0..<4 as Range<UInt64>)
  func mutations(seed: UInt64) {
    var generator = SeededGenerator(seed: seed)
    for _ in 0..<60 {
      let arguments = (0..<Int.random(in: 0...5, using: &generator)).map { _ in
        var word = Self.words.randomElement(using: &generator) ?? ""
        // A typing error, or a wrong word.
        switch Int.random(in: 0..<6, using: &generator) {
        case 0: word += Self.words.randomElement(using: &generator) ?? ""
        case 1: word = String(word.dropLast())
        case 2: word = String(word.reversed())
        default: break
        }
        return word
      }
      do {
        try Connctl.checkCommandName(in: arguments)
        _ = try Connctl.parseAsRoot(arguments)
      } catch {
        let status = Connctl.exitCode(for: error)
        #expect(status == .success || status.rawValue == 64, "\(arguments): \(error)")
        #expect(!Connctl.fullMessage(for: error).isEmpty, "\(arguments)")
      }
    }
  }
}
