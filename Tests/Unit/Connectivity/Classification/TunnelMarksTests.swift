import Connectivity
import Testing

@testable import ConnectivityRules

/// Rules that VPN programs add, as printed by `ip rule`, and the marks they imply for the tunnel's
/// own packets (K6).
@Suite("Marks of tunnels")
struct TunnelMarksTests {
  private static func rule(
    _ selection: Rule.Selection, _ table: UInt32?, _ action: Rule.Action = .lookup
  ) -> Rule {
    Rule(family: .ipv4, priority: 0, selection: selection, action: action, table: table)
  }

  private static let main = rule(.all, 254)
  private static let local = rule(.all, 255)
  private static let tailscale = [
    rule(.mark(0x80000, isInverted: false), 254), rule(.mark(0x80000, isInverted: false), 253),
    rule(.mark(0x80000, isInverted: false), nil, .unreachable), rule(.all, 52),
  ]

  struct Case: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var table: UInt32
    var rules: [Rule]
    var marks: [UInt32]
  }

  private static let cases = [
    // 32764: from all lookup main suppress_prefixlength 0; 32765: not from all fwmark 0xca6c lookup
    // 51820
    Case(
      testDescription: "wg-quick, and NetworkManager and Mullvad alike", table: 51820,
      rules: [local, main, rule(.mark(0xca6c, isInverted: true), 51820), main], marks: [0xca6c]),
    Case(
      testDescription: "Tailscale with an exit node", table: 52,
      rules: [local] + tailscale + [main],
      marks: [0x80000]),
    Case(
      testDescription: "both, and each has its own table", table: 51820,
      rules: [local] + tailscale + [rule(.mark(0xca6c, isInverted: true), 51820), main],
      marks: [0xca6c]),
    Case(
      testDescription: "two tunnels that share a table", table: 9,
      rules: [
        rule(.mark(1, isInverted: true), 9), rule(.mark(2, isInverted: true), 9),
        rule(.mark(1, isInverted: true), 9), main,
      ], marks: [1, 2]),
    Case(
      testDescription: "a route in main, beside rules of somebody else's marks", table: 254,
      rules: [local, rule(.mark(7, isInverted: false), 100), main], marks: []),
    Case(
      testDescription: "the same, where the mark is led to main itself", table: 254,
      rules: [local, rule(.mark(7, isInverted: false), 254), main], marks: []),
    Case(
      testDescription: "a mark that leads elsewhere than to main", table: 52,
      rules: [rule(.mark(7, isInverted: false), 100), rule(.all, 52), main], marks: []),
    Case(
      testDescription: "a mark whose rule comes too late", table: 52,
      rules: [rule(.all, 52), rule(.mark(7, isInverted: false), 254), main], marks: []),
    Case(
      testDescription: "only some traffic is led into the tunnel", table: 52,
      rules: [rule(.mark(7, isInverted: false), 254), rule(.other, 52), main], marks: []),
    Case(
      testDescription: "a rule that discards", table: 52,
      rules: [rule(.mark(7, isInverted: true), 52, .blackhole), rule(.all, 52)], marks: []),
    Case(
      testDescription: "no mark at all", table: 52,
      rules: [rule(.mark(0, isInverted: true), 52), rule(.all, 52)], marks: []),
    Case(testDescription: "no rules", table: 254, rules: [], marks: []),
  ]

  @Test("K6 the marks that keep a tunnel's own packets out of the tunnel", arguments: cases)
  func marks(_ known: Case) {
    #expect(Rule.marks(keptOutOf: known.table, by: known.rules) == known.marks)
  }

  @Test("D8 only a few of a thousand marks are queried")
  func many() {
    let rules = (1...1000).map { Self.rule(.mark($0, isInverted: true), 9) }
    #expect(Rule.marks(keptOutOf: 9, by: rules).count == 4)
  }
}
