/// The characters that pictures are drawn with.
struct Glyphs: Hashable, Sendable {
  /// Only ASCII is shown, also of names.
  var isASCII: Bool
  /// Between two stations of a path, and where it is interrupted.
  var line: String
  var gap: String
  /// In place of what does not fit.
  var ellipsis: String
  /// Of a signal, the weakest first; each is as wide as the place of one that is missing.
  var bars: [String]
  var noBar: String
  /// In a timeline: what was, and what was not.
  var full: String
  var empty: String
  /// On the axis of a timeline, where a time is written.
  var mark: String

  static let unicode = Glyphs(
    isASCII: false, line: "─", gap: "╳", ellipsis: "…", bars: ["▂", "▄", "▆", "█"], noBar: "·",
    full: "█", empty: "·", mark: "╵")

  static let ascii = Glyphs(
    isASCII: true, line: "-", gap: "x", ellipsis: "...", bars: ["#", "#", "#", "#"], noBar: ".",
    full: "#", empty: ".", mark: "'")

  /// Those of the user's locale, by the variables of locale(7): the first of them that is not empty says it.
  static func ofLocale(_ environment: (String) -> String?) -> Glyphs {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].compactMap { environment($0) }
      .first { !$0.isEmpty }
    let codeset = (locale ?? "").lowercased()
    return codeset.hasSuffix("utf-8") || codeset.hasSuffix("utf8") || codeset.contains("utf-8@")
      || codeset.contains("utf8@") ? .unicode : .ascii
  }
}
