import Connectivity
import ConnectivityJSON

/// The properties of the user's terminal and time zone.
struct Style: Sendable {
  /// The width of a line, or `.max` if lines are not wrapped.
  var width = 80
  var color = false
  /// Whether the terminal lacks UTF-8.
  var isASCII = false
  var localTime: @Sendable (WallTime) -> LocalTime

  struct LocalTime: Hashable, Sendable {
    /// `2026-11-21`
    var date: String
    /// `14:05:12.123`
    var time: String
  }
}

/// The meaning of a colour. No information is shown by colour alone.
enum TextStyle: Sendable {
  case good, middling, bad, faint, heading

  /// The SGR parameters of ECMA-48.
  var code: String {
    switch self {
    case .good: "32"
    case .middling: "33"
    case .bad: "31"
    case .faint: "2"
    case .heading: "1"
    }
  }
}

extension Style {
  /// Returns the printable text, with colour, and without characters that would move the cursor.
  /// The kernel allows control characters in link names.
  func paint(_ text: String, _ ink: TextStyle?) -> String {
    let scalars = text.unicodeScalars.map { $0 == Text.tie ? " " : $0 }
    let printable = String(String.UnicodeScalarView(scalars)).printable
    let plain = self.isASCII ? printable.ascii : printable
    guard self.color, let ink, !plain.isEmpty else { return plain }
    return "\u{1B}[\(ink.code)m\(plain)\u{1B}[0m"
  }
}
