/// A piece of text in one colour.
struct Text: Hashable, Sendable {
  var string: String
  var ink: TextStyle?

  init(_ string: String, _ ink: TextStyle? = nil) {
    self.string = string
    self.ink = ink
  }

  /// The space between two words that stay on one line.
  static let tie: Unicode.Scalar = "\u{A0}"

  /// Joins words so that no line break separates them.
  static func tied(_ words: String...) -> String {
    words.joined(separator: String(Character(Self.tie)))
  }

  /// The text for a terminal without UTF-8.
  var ascii: Text { Text(self.string.ascii, self.ink) }
}

extension Text: ExpressibleByStringInterpolation {
  init(stringLiteral value: String) { self.init(value) }
}
