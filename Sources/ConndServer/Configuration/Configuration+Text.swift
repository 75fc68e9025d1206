import Connectivity
import ConnectivityJSON
import ConnectivityRules

extension Configuration {
  /// The text of a file with the same effect on connd's reports. Omits comments, socket and limits.
  package var text: String { self.text(links: self.links.rules) { $0 } }

  /// Returns the text with other rules for links, and with substitutes for addresses.
  func text(links rules: [LinkPolicy.Rule], address: (IPAddress) -> IPAddress) -> String {
    func list(_ addresses: [IPAddress]) -> String {
      "[" + addresses.map { "\"\(address($0))\"" }.joined(separator: ", ") + "]"
    }
    let policy = self.invalidations
    let lines = [
      "destinations: {ipv4: \(list(self.destinations.ipv4)), ipv6: \(list(self.destinations.ipv6))}",
      "prefer: \(self.prefer.rawValue)", "identify: \(self.identify.rawValue)",
      "grace: {\(policy.graceText)}",
      "invalidations: {betterPath: \(policy.betterPath.rawValue), "
        + "categoryChanged: \(policy.categoryChanged.rawValue)}",
    ]
    let links = rules.isEmpty ? [] : ["links:"] + rules.map { "  - {\($0.text)}" }
    return (lines + links).map { $0 + "\n" }.joined()
  }
}

extension LinkPolicy.Rule {
  fileprivate var text: String {
    // A JSON string is also a YAML string.
    var parts = ["match: \(JSON.string(self.match).line(terminator: ""))"]
    if let medium = self.medium { parts.append("medium: \(medium.rawValue)") }
    if let isOn = self.expensive { parts.append("expensive: \(isOn)") }
    if let constraint = self.constraint {
      parts.append(
        "constrained: \(constraint == .ultra ? "ultra" : "\(constraint != .unconstrained)")")
    }
    return parts.joined(separator: ", ")
  }
}

extension InvalidationPolicy {
  /// The grace periods of routes, and of each medium with a configured or default grace period.
  fileprivate var graceText: String {
    let media = NetworkMedium.allCases.compactMap { medium -> String? in
      let grace = self.carrierGrace[medium]
      guard grace != nil || Self().carrierGrace[medium] != nil else { return nil }
      return "\(medium.rawValue): \((grace ?? .zero).text)"
    }
    return (media + ["route: \(self.routeGrace.text)"]).joined(separator: ", ")
  }
}

extension Duration {
  /// The duration in milliseconds, as in a configuration.
  fileprivate var text: String { "\(self.nanoseconds / 1_000_000)ms" }
}
