extension Unicode.Scalar {
  /// Whether the character moves a terminal's cursor, changes its display, begins another line, or
  /// reverses text (UAX #9). Link names and SSIDs may contain any of these characters.
  package var isUnprintable: Bool {
    switch self {
    case "\u{0}"..<"\u{20}", "\u{7F}"..<"\u{A0}", "\u{61C}", "\u{200E}", "\u{200F}",
      "\u{2028}"..."\u{202E}", "\u{2066}"..."\u{2069}":
      true
    default: false
    }
  }
}

extension String {
  /// The text on one line, with `?` for each unprintable character: for terminals and status lines.
  package var printable: String { self.replacingUnprintable { _ in "?" } }

  /// The text on one line, with an escape such as `\n` or `\u{1B}` for each unprintable character:
  /// for logs, which must show the original text.
  package var escaped: String { self.replacingUnprintable { $0.escaped(asASCII: true) } }

  private func replacingUnprintable(by substitute: (Unicode.Scalar) -> String) -> String {
    guard self.unicodeScalars.contains(where: \.isUnprintable) else { return self }
    return self.unicodeScalars.reduce(into: "") { result, scalar in
      if scalar.isUnprintable {
        result += substitute(scalar)
      } else {
        result.unicodeScalars.append(scalar)
      }
    }
  }
}
