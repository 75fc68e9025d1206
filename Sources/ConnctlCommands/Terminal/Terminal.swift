import Glibc
import LinuxSupport

/// The terminal at standard output while it shows a picture: on the alternate screen, without a
/// cursor and without echo. It uses ECMA-48 sequences and xterm's private modes. All terminals
/// except printing ones have them, or ignore unknown modes.
struct Terminal {
  private let settings: termios
  private(set) var isEntered = false

  /// Whether standard input is a terminal, so that keys can be read.
  let hasKeys = isatty(STDIN_FILENO) == 1

  init() throws {
    var settings = termios()
    guard tcgetattr(STDOUT_FILENO, &settings) == 0 else { throw SystemError() }
    self.settings = settings
    try self.enter()
  }

  /// Takes over the terminal. If the process is in the background, the kernel stops it here.
  mutating func enter() throws {
    var settings = self.settings
    settings.c_lflag &= ~tcflag_t(ICANON | ECHO)
    // The kernel refuses a background process that no shell can bring to the foreground.
    guard Self.set(settings) else { throw SystemError() }
    // A second request would make the terminal forget its cursor position.
    guard !self.isEntered else { return }
    self.isEntered = true
    // Alternate screen, no cursor, no automatic wrapping.
    try self.write("\u{1B}[?1049h\u{1B}[?25l\u{1B}[?7l")
  }

  /// Restores the terminal.
  mutating func leave() {
    guard self.isEntered else { return }
    self.isEntered = false
    // A terminal without an alternate screen is cleared.
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

  /// Returns the typed bytes, or `nil` at the end of the input.
  func keys() -> [UInt8]? {
    var bytes = [UInt8](repeating: 0, count: 64)
    let count = Glibc.read(STDIN_FILENO, &bytes, bytes.count)
    if count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN) { return nil }
    return Array(bytes.prefix(max(0, count)))
  }

  func write(_ text: String) throws { try Console.writeAll(text, to: STDOUT_FILENO) }

  /// The current size, or 80×24 if the terminal does not report one.
  var size: Frame.Size {
    var size = winsize()
    guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0
    else { return Frame.Size(columns: 80, rows: 24) }
    // Only a part of a larger terminal is used.
    return Frame.Size(columns: min(500, Int(size.ws_col)), rows: min(300, Int(size.ws_row)))
  }
}
