import Connectivity
import ConnectivityRules

/// Writes a configuration again from its values, because its comments, paths and patterns may be
/// private.
extension Anonymizer {
  func text(of configuration: Configuration) -> String {
    let grace = configuration.invalidations
    // The probes are replaced, too, because their recorded answers are.
    let lines = [
      "destinations: {ipv4: \(self.list(configuration.destinations.ipv4)), "
        + "ipv6: \(self.list(configuration.destinations.ipv6))}",
      "prefer: \(configuration.prefer.rawValue)", "identify: \(configuration.identify.rawValue)",
      "grace: {\(grace.graceWords)}",
      "invalidations: {betterPath: \(grace.betterPath.rawValue), "
        + "categoryChanged: \(grace.categoryChanged.rawValue)}",
    ]
    let rules = self.linkRules(configuration.links)
    return (lines + (rules.isEmpty ? [] : ["links:"] + rules)).map { $0 + "\n" }.joined()
  }

  private func list(_ addresses: [IPAddress]) -> String {
    "[" + addresses.map { "\"\(self.address($0))\"" }.joined(separator: ", ") + "]"
  }

  /// Returns the rules for all known links. A pattern may name a private link, so the matching
  /// links replace it.
  private func linkRules(_ policy: LinkPolicy) -> [String] {
    let rules = self.linkNames.compactMap { name, substitute in
      policy.rule(for: name).map { (substitute, $0) }
    }
    return rules.sorted { $0.0 < $1.0 }.map { name, rule in
      var words = ["match: \"\(name)\""]
      if let medium = rule.medium { words.append("medium: \(medium.rawValue)") }
      if let isOn = rule.expensive { words.append("expensive: \(isOn)") }
      if let isOn = rule.constrained { words.append("constrained: \(isOn)") }
      return "  - {\(words.joined(separator: ", "))}"
    }
  }
}

extension InvalidationPolicy {
  fileprivate var graceWords: String {
    let media = Medium.allCases.compactMap { medium in
      self.carrierGrace[medium].map { "\(medium.rawValue): \($0.words)" }
    }
    return (media + ["route: \(self.routeGrace.words)"]).joined(separator: ", ")
  }
}

extension Duration {
  /// Configurations use milliseconds.
  fileprivate var words: String { "\(self.nanoseconds / 1_000_000)ms" }
}
