import Glibc

/// What the configuration says about links.
public struct LinkPolicy: Hashable, Sendable {
  /// One entry of the configuration's `links`.
  public struct Rule: Hashable, Sendable {
    /// A name or a pattern of glob(7).
    public var match: String
    /// `nil` where the rule leaves it open, as in the fields below.
    public var medium: Medium?
    public var expensive: Bool?
    public var constrained: Bool?

    public init(
      match: String, medium: Medium? = nil, expensive: Bool? = nil, constrained: Bool? = nil
    ) {
      self.match = match
      self.medium = medium
      self.expensive = expensive
      self.constrained = constrained
    }
  }

  /// The first that matches counts.
  public var rules: [Rule]

  public init(_ rules: [Rule] = []) {
    self.rules = rules
  }

  /// The rule for a link: the first that matches its name.
  public func rule(for name: String) -> Rule? {
    self.rules.first { fnmatch($0.match, name, 0) == 0 }
  }
}
