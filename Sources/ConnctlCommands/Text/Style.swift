import Connectivity
import ConnectivityJSON

/// What the reader's screen can show, and where the reader lives.
struct Style: Sendable {
  /// Characters in a line; `.max` where no line is broken.
  var width = 80
  var color = false
  var localTime: @Sendable (Timestamp) -> LocalTime

  struct LocalTime: Hashable, Sendable {
    /// `2026-11-21`
    var date: String
    /// `14:05:12.123`
    var time: String
  }
}

/// What a colour means. Nothing is said by colour alone.
enum Ink: Sendable {
  case good, middling, bad, faint, heading

  /// SGR parameters of ECMA-48.
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
  /// The text as it is printed: in colour, and without what would move the cursor. The kernel lets a link's
  /// name hold control characters.
  func paint(_ text: String, _ ink: Ink?) -> String {
    let scalars = text.unicodeScalars.map { $0 == Text.tie ? " " : $0 }
    let plain = String(String.UnicodeScalarView(scalars)).printable
    guard self.color, let ink, !plain.isEmpty else { return plain }
    return "\u{1B}[\(ink.code)m\(plain)\u{1B}[0m"
  }
}
