/// The characters for pictures.
struct Glyphs: Hashable, Sendable {
  /// Whether only ASCII is shown, also in names.
  var isASCII: Bool
  /// The pieces between two hops of a path: connected, and interrupted.
  var line: String
  var gap: String
  /// Replaces text that does not fit.
  var ellipsis: String
  /// The bars of a signal, weakest first. Each is as wide as ``noBar``, which replaces a missing
  /// bar.
  var bars: [String]
  var noBar: String
  /// The columns of a timeline, with and without an entry.
  var full: String
  var empty: String
  /// Marks a time on the axis of a timeline.
  var mark: String

  static let unicode = Glyphs(
    isASCII: false, line: "─", gap: "╳", ellipsis: "…", bars: ["▂", "▄", "▆", "█"], noBar: "·",
    full: "█", empty: "·", mark: "╵")

  static let ascii = Glyphs(
    isASCII: true, line: "-", gap: "x", ellipsis: "...", bars: ["#", "#", "#", "#"], noBar: ".",
    full: "#", empty: ".", mark: "'")

  /// Returns the glyphs for an output. Only a terminal may lack UTF-8. Files and pipes always
  /// contain UTF-8, like JSON, so that they do not depend on the locale.
  static func of(isTerminal: Bool, _ environment: (String) -> String?) -> Glyphs {
    isTerminal ? self.ofLocale(environment) : .unicode
  }

  /// Returns the glyphs for the user's locale, from the first non-empty variable of locale(7).
  static func ofLocale(_ environment: (String) -> String?) -> Glyphs {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].compactMap { environment($0) }
      .first { !$0.isEmpty }
    let codeset = (locale ?? "").lowercased()
    return codeset.hasSuffix("utf-8") || codeset.hasSuffix("utf8") || codeset.contains("utf-8@")
      || codeset.contains("utf8@") ? .unicode : .ascii
  }
}

extension String {
  /// The text for a terminal without UTF-8. connctl's own characters have replacements, and others
  /// become “?”. ``Text/tie`` is kept.
  var ascii: String {
    if self.utf8.allSatisfy({ $0 < 0x80 }) { return self }
    return self.unicodeScalars.map { scalar in
      scalar.isASCII || scalar == Text.tie ? String(scalar) : scalar.inASCII
    }.joined()
  }
}

extension Unicode.Scalar {
  /// The replacement of a character on a terminal without UTF-8.
  var inASCII: String {
    switch self {
    case "→": "->"
    case "·": "-"
    case "…": "..."
    case "“", "”": "\""
    case "─": "-"
    case "│": "|"
    case "├", "└": "+"
    case Text.tie: " "
    default: "?"
    }
  }
}
