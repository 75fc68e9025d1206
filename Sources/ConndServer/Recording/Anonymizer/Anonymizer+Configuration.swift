import Connectivity
import ConnectivityRules

/// Regenerates a configuration from its values, because its comments, paths and patterns may be
/// private.
extension Anonymizer {
  func text(of configuration: Configuration) -> String {
    configuration.text(links: self.linkRules(configuration.links), address: self.address)
  }

  /// Returns the rules for all known links. A pattern may name a private link, so the substitutes
  /// of the matching links replace it.
  private func linkRules(_ policy: LinkPolicy) -> [LinkPolicy.Rule] {
    let rules = self.linkNames.compactMap { name, substitute in
      policy.rule(for: name).map { rule in
        var rule = rule
        rule.match = substitute
        return rule
      }
    }
    return rules.sorted { $0.match < $1.match }
  }
}
