import Connectivity
import Testing

@testable import ConnectivityRules

@Suite("Discarded traffic")
struct DiscardTests {
  private static func rule(
    _ priority: UInt32, _ action: Rule.Action = .lookup, table: UInt32? = nil,
    _ selection: Rule.Selection = .all, suppressing length: UInt32? = nil
  ) -> Rule {
    Rule(
      family: .ipv4, priority: priority, selection: selection, action: action, table: table,
      suppressPrefixLength: length)
  }

  private static let usual = [
    rule(0, table: 255), rule(32766, table: 254), rule(32767, table: 253),
  ]

  private static func route(
    _ length: Int, table: UInt32 = 254, metric: UInt32 = 0
  ) throws -> MatchedRoute {
    let prefix = IPPrefix(.unspecified(.ipv4), length: length)
    return MatchedRoute(prefix: try #require(prefix), table: table, priority: metric)
  }

  private func find(
    _ reason: KernelPath.Reason, _ rules: [Rule], _ routes: [MatchedRoute] = [], mark: UInt32 = 0
  ) -> Discard? {
    Discard(
      of: reason, mark: mark, (Self.usual + rules).sorted { $0.priority < $1.priority }, routes)
  }

  @Test("the first rule with the action of the answer, unless its mark excludes the traffic")
  func rules() {
    let all = Self.rule(50, .prohibit)
    #expect(self.find(.prohibited, [all, Self.rule(60, .prohibit)]) == Discard(all))
    #expect(self.find(.blackhole, [all]) == nil)
    let unmarked = Self.rule(40, .prohibit, .mark(0xca6c, isInverted: true))
    #expect(self.find(.prohibited, [all, unmarked]) == Discard(unmarked))
    #expect(self.find(.prohibited, [all, unmarked], mark: 0xca6c) == Discard(all))
    // The kernel's answer is the same as without a route.
    let unreachable = Self.rule(50, .unreachable)
    #expect(self.find(.noRoute, [unreachable]) == Discard(unreachable))
    #expect(self.find(.noRoute, []) == nil)
  }

  @Test("in a table, the route with the longest prefix, then the one with the lowest metric")
  func routes() throws {
    let routes = [
      try Self.route(0, metric: 50), try Self.route(1, metric: 20), try Self.route(1, metric: 10),
      try Self.route(8, table: 99),
    ]
    #expect(self.find(.unreachable, [], routes) == Discard(Self.usual[1], routes[2]))
    let vpn = Self.rule(100, table: 99, .mark(1, isInverted: true))
    #expect(self.find(.unreachable, [vpn], routes) == Discard(vpn, routes[3]))
    #expect(self.find(.unreachable, [vpn], routes, mark: 1) == Discard(Self.usual[1], routes[2]))
    let main = Self.rule(90, table: 254, suppressing: 1)
    #expect(self.find(.unreachable, [main, vpn], routes) == Discard(vpn, routes[3]))
  }

  @Test("a rule that selects by more than the mark counts only if nothing else explains the answer")
  func doubtful() throws {
    let other = Self.rule(50, .prohibit, .other)
    #expect(self.find(.prohibited, [other]) == Discard(other))
    let route = try Self.route(0, metric: 50)
    #expect(self.find(.prohibited, [other], [route]) == Discard(Self.usual[1], route))
  }

  @Test("a rule with goto skips the rules before its target")
  func jump() {
    let target = Self.rule(60, .prohibit)
    let rules = [Self.rule(40, .goto(60)), Self.rule(50, .prohibit), target]
    #expect(self.find(.prohibited, rules) == Discard(target))
  }
}
