extension Unicode.Scalar {
  /// Whether it moves a terminal's cursor, changes what it shows, or turns the text around (UAX #9): a control character, a
  /// separator of lines, or a bidirectional formatting character. The kernel lets a link's name hold any of them, and so may
  /// what somebody else's server says.
  package var isUnprintable: Bool {
    switch self {
    case "\u{0}"..<"\u{20}", "\u{7F}"..<"\u{A0}", "\u{61C}", "\u{200E}", "\u{200F}",
      "\u{2028}"..."\u{202E}", "\u{2066}"..."\u{2069}":
      true
    default: false
    }
  }
}
