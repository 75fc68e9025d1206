package import Connectivity

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#else
  import Darwin
#endif

/// The configuration's rules for links.
package struct LinkPolicy: Hashable, Sendable {
  /// One entry of the configuration's `links`.
  package struct Rule: Hashable, Sendable {
    /// A name or a pattern of glob(7).
    package var match: String
    /// `nil` if the rule does not set the medium. The same applies to the fields below.
    package var medium: NetworkMedium?
    package var expensive: Bool?
    package var constraint: ConstraintLevel?

    package init(
      match: String, medium: NetworkMedium? = nil, expensive: Bool? = nil,
      constraint: ConstraintLevel? = nil
    ) {
      self.match = match
      self.medium = medium
      self.expensive = expensive
      self.constraint = constraint
    }
  }

  /// The rules in the order of the configuration. The first match applies.
  package var rules: [Rule]

  package init(_ rules: [Rule] = []) {
    self.rules = rules
  }

  /// Returns the first rule that matches one of the link's names, or `nil` if none does.
  package func rule(for link: Link) -> Rule? {
    self.rules.first { rule in
      fnmatch(rule.match, link.name, 0) == 0
        || link.alternativeNames.contains { fnmatch(rule.match, $0, 0) == 0 }
    }
  }

  /// Returns the first rule that matches a link's name, or `nil` if none does.
  package func rule(for name: String) -> Rule? { self.rule(for: Link(index: 0, name: name)) }
}
