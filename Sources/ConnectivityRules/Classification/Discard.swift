package import Connectivity

/// The rule or route that discards traffic, which the kernel's answer does not name.
package struct Discard: Hashable, Sendable {
  /// The rule that discards the traffic itself, or the first one that leads to the route.
  package var rule: Rule
  /// The route that discards the traffic, or `nil` if the rule does.
  package var route: MatchedRoute?

  package init(_ rule: Rule, _ route: MatchedRoute? = nil) {
    self.rule = rule
    self.route = route
  }

  /// Finds what discards traffic, like the kernel: by the rules in their order, and in a table by
  /// the longest prefix and the lowest metric. Rules that select by more than the mark are used
  /// only if no other rule explains the answer.
  ///
  /// - Parameters:
  ///   - reason: The kernel's answer.
  ///   - rules: The rules of the address family, in their order.
  ///   - routes: The routes that contain the destination and have the type of the answer.
  package init?(
    of reason: KernelPath.Reason, mark: UInt32, _ rules: [Rule], _ routes: [MatchedRoute]
  ) {
    var doubtful: Discard?
    var next: UInt32 = 0
    for rule in rules where rule.priority >= next {
      let selects = rule.selection.includes(mark: mark)
      if selects == false { continue }
      if selects == true, case .goto(let priority) = rule.action { next = priority }
      guard let found = Self.discard(of: reason, by: rule, routes) else { continue }
      if selects == true {
        self = found
        return
      }
      doubtful = doubtful ?? found
    }
    guard let doubtful else { return nil }
    self = doubtful
  }

  private static func discard(
    of reason: KernelPath.Reason, by rule: Rule, _ routes: [MatchedRoute]
  ) -> Discard? {
    switch (rule.action, reason) {
    // For a rule of type unreachable, the kernel's answer is the same as without a route.
    case (.prohibit, .prohibited), (.blackhole, .blackhole), (.unreachable, .noRoute):
      return Discard(rule)
    case (.lookup, _):
      let shortest = rule.suppressPrefixLength.map { Int($0) + 1 } ?? 0
      return routes.filter { $0.table == rule.table && $0.prefix.length >= shortest }
        .min { ($1.prefix.length, $0.priority) < ($0.prefix.length, $1.priority) }
        .map { Discard(rule, $0) }
    default: return nil
    }
  }
}

extension Rule.Selection {
  /// Whether the rule selects traffic with a mark, or `nil` if that depends on more.
  fileprivate func includes(mark: UInt32) -> Bool? {
    switch self {
    case .all: true
    case .mark(let own, let isInverted):
      // The mask is unknown.
      own == mark ? !isInverted : mark == 0 ? isInverted : nil
    case .other: nil
    }
  }
}
