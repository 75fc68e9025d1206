/// A device behind a link that looks like a cable and shares the device's own network.
package struct Via: Hashable, Sendable {
  package enum Kind: String, Hashable, Sendable, CaseIterable {
    /// A phone that is tethered by USB.
    case phone
  }

  package var kind: Kind
  /// Whether it may be another device that announces itself the same way.
  package var isGuess: Bool

  package init(_ kind: Kind, isGuess: Bool) {
    self.kind = kind
    self.isGuess = isGuess
  }
}
