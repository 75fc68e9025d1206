import Glibc
import UnixTransport

/// The terminal that standard output is, as long as a picture has it: a screen of its own, without a cursor and without what is
/// typed. By the sequences of ECMA-48 and xterm's private modes, which all have that are more than a line of paper; one that does
/// not know a mode passes over it.
struct Terminal {
  enum Key: Hashable {
    case quit, redraw, none, ended
  }

  private let settings: termios
  private(set) var isEntered = false

  /// Whether standard input is a terminal, which tells of keys.
  let hasKeys = isatty(STDIN_FILENO) == 1

  init() throws {
    var settings = termios()
    guard tcgetattr(STDOUT_FILENO, &settings) == 0 else { throw SystemError() }
    self.settings = settings
    try self.enter()
  }

  /// Takes the terminal; in the background the kernel stops the process here.
  mutating func enter() throws {
    var settings = self.settings
    settings.c_lflag &= ~tcflag_t(ICANON | ECHO)
    // In the background without a shell that could bring it to the foreground, the kernel refuses.
    guard Self.set(settings) else { throw SystemError() }
    // Asked for it twice, a terminal forgets where its cursor was.
    guard !self.isEntered else { return }
    self.isEntered = true
    // Its other screen, no cursor, no going on in the next line.
    try self.write("\u{1B}[?1049h\u{1B}[?25l\u{1B}[?7l")
  }

  /// Gives it back as it was.
  mutating func leave() {
    guard self.isEntered else { return }
    self.isEntered = false
    // One that has no other screen is left empty.
    try? self.write("\u{1B}[0m\u{1B}[H\u{1B}[2J\u{1B}[?7h\u{1B}[?25h\u{1B}[?1049l")
    _ = Self.set(self.settings)
  }

  private static func set(_ settings: termios) -> Bool {
    var settings = settings
    while tcsetattr(STDOUT_FILENO, TCSADRAIN, &settings) != 0 {
      if errno != EINTR { return false }
    }
    return true
  }

  /// What was typed; what is unknown, the sequences of arrows for one, is nothing.
  func key() -> Key {
    var bytes = [UInt8](repeating: 0, count: 64)
    let count = Glibc.read(STDIN_FILENO, &bytes, bytes.count)
    if count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN) { return .ended }
    for byte in bytes.prefix(max(0, count)) {
      switch byte {
      case UInt8(ascii: "q"), UInt8(ascii: "Q"): return .quit
      // Ctrl-L, as everywhere.
      case 12: return .redraw
      default: continue
      }
    }
    return .none
  }

  func write(_ text: String) throws { try Console.writeAll(text, to: STDOUT_FILENO) }

  /// What it is now; 80×24 where it does not say.
  var size: Frame.Size {
    var size = winsize()
    guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0
    else { return Frame.Size(columns: 80, rows: 24) }
    // One that claims to be larger than any is drawn on in part.
    return Frame.Size(columns: min(500, Int(size.ws_col)), rows: min(300, Int(size.ws_row)))
  }
}
