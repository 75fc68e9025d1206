/// A device behind a link that looks like a cable and shares the device's own network.
package struct Via: Hashable, Sendable {
  package enum Kind: String, Hashable, Sendable, CaseIterable {
    /// A phone with USB tethering.
    case phone
  }

  package var kind: Kind
  /// Whether the device may be something else that announces itself identically.
  package var isGuess: Bool

  package init(_ kind: Kind, isGuess: Bool) {
    self.kind = kind
    self.isGuess = isGuess
  }
}
