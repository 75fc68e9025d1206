import Connectivity
import ConnectivityJSON
import Glibc
import LinuxSupport

/// The output of a command.
struct Console: Sendable {
  /// Writes to standard output, unbuffered.
  ///
  /// - Throws: ``OutputClosed`` if the reader is gone.
  var write: @Sendable (String) throws -> Void
  /// Writes to standard error.
  var complain: @Sendable (String) -> Void
  var style: Style
  var now: @Sendable () -> WallTime
  /// The width of the terminal on standard error, or `nil` if it is not a terminal and each error
  /// is one line.
  var errorWidth: Int?
  /// The characters for pictures.
  var glyphs = Glyphs.unicode
  /// Whether standard error is a terminal without UTF-8.
  var errorIsASCII = false
  /// Whether standard output is a terminal on which pictures can be updated.
  var isLive = false
  /// The descriptor of standard input.
  var input = STDIN_FILENO
  /// Shows a text in a pager if it has more lines than the screen. Returns whether it did.
  var page: @Sendable (_ text: String, _ lines: Int) async -> Bool = { _, _ in false }
  /// Returns a user's name, or `nil` if the user is unknown.
  var userName: @Sendable (UInt32) -> String? = UserName.name
  /// Ends the process when the reader of its output is gone. A command that prints only events
  /// would otherwise notice that with the next event, perhaps a day later.
  var endWithReader: @Sendable () -> Void = {}

  /// The console of the command that runs in this task.
  @TaskLocal static var current = Console.standard

  func print(_ lines: [String]) throws {
    guard !lines.isEmpty else { return }
    try self.writeText(lines.joined(separator: "\n") + "\n")
  }

  /// Writes text for people.
  func writeText(_ text: String) throws {
    try self.write(self.style.isASCII ? text.ascii : text)
  }

  /// Prints lines, in a pager if they do not fit on the screen.
  func printPaged(_ lines: [String], pages: Bool) async throws {
    guard !lines.isEmpty else { return }
    if pages, await self.page(lines.joined(separator: "\n") + "\n", lines.count) { return }
    try self.print(lines)
  }

  func print(_ json: JSON) throws {
    try self.write(json.line(terminator: "\n"))
  }

  /// Prints a remark: one line on standard error.
  func remark(_ text: String) {
    // A name in the text, such as an SSID, must not start another line.
    self.complainInLines("connctl: \(text.printable)\n")
  }

  /// Prints a remark for an interactive user, which scripts do not receive.
  func hint(_ text: String) {
    if self.errorWidth != nil { self.remark(text) }
  }

  /// Writes to standard error, wrapped to the terminal's width.
  func complainInLines(_ text: String) {
    let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map { line in
      let printable = String(line).printable
      return (self.errorIsASCII ? printable.ascii : printable)[...]
    }
    let style = Style(width: self.errorWidth ?? .max, localTime: self.style.localTime)
    self.complain(lines.flatMap { Self.lines(of: $0, style) }.joined(separator: "\n"))
  }

  private static func lines(of text: Substring, _ style: Style) -> [String] {
    guard text.count > style.width else { return [String(text)] }
    // Leading spaces belong to the first word.
    let rest = text.drop { $0 == " " }
    let spaces = String(repeating: Character(Text.tie), count: text.count - rest.count)
    var table = Table()
    table.add(Text(spaces + rest))
    return table.lines(style)
  }
}

/// The error if the reader of standard output is gone, as after `head`. It needs no message.
struct OutputClosed: Error {}

/// The error if output cannot be written for a reason other than a closed reader.
struct OutputError: Error, CustomStringConvertible {
  var description: String
}

extension Console {
  /// The console of the process. Colour and width depend on the terminal. Without one, lines have
  /// no colour and are not wrapped, for grep(1) and similar tools.
  static let standard = Console(
    write: { try Console.writeAll($0, to: STDOUT_FILENO) },
    complain: { try? Console.writeAll($0, to: STDERR_FILENO) },
    style: Style(
      width: Console.terminalWidth(STDOUT_FILENO) ?? .max,
      color: Console.allowsColor(
        isTerminal: isatty(STDOUT_FILENO) == 1,
        environment: Console.variable),
      isASCII: Glyphs.of(isTerminal: isatty(STDOUT_FILENO) == 1, Console.variable).isASCII,
      localTime: Console.localTime),
    now: {
      var time = timespec()
      clock_gettime(CLOCK_REALTIME, &time)
      return WallTime(microseconds: Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1_000)
    }, errorWidth: Console.terminalWidth(STDERR_FILENO),
    glyphs: Glyphs.of(isTerminal: isatty(STDOUT_FILENO) == 1, Console.variable),
    errorIsASCII: Glyphs.of(isTerminal: isatty(STDERR_FILENO) == 1, Console.variable).isASCII,
    isLive: Console.movesCursor(
      isTerminal: isatty(STDOUT_FILENO) == 1, environment: Console.variable),
    page: Pager.show, endWithReader: Console.endWithPipe)

  /// Ends the process when its output is a pipe without a reader, like tail(1). A thread that only
  /// waits in poll(2) causes no wake-ups.
  private static func endWithPipe() {
    guard isatty(STDOUT_FILENO) == 0 else { return }
    _ = Thread.start(named: "connctl-output") {
      var output = pollfd(fd: STDOUT_FILENO, events: 0, revents: 0)
      while poll(&output, 1, -1) < 0, errno == EINTR {}
      // The same exit as when a write fails because the reader is gone.
      if output.revents & Int16(POLLERR | POLLHUP) != 0 { _exit(0) }
    }
  }

  /// Whether the terminal supports the cursor sequences of ECMA-48. Terminals with a specific TERM
  /// do, except printing terminals and those in editors.
  static func movesCursor(isTerminal: Bool, environment: (String) -> String?) -> Bool {
    isTerminal && !["", "dumb", "unknown", "emacs"].contains(environment("TERM") ?? "")
  }

  /// Returns a variable of the environment, or `nil` if it is not set.
  static func variable(_ name: String) -> String? {
    getenv(name).map { String(cString: $0) }
  }

  /// Whether colour is allowed (no-color.org). Editors and build tools set `TERM=dumb`.
  static func allowsColor(isTerminal: Bool, environment: (String) -> String?) -> Bool {
    isTerminal && environment("NO_COLOR") ?? "" == "" && environment("TERM") != "dumb"
  }

  /// The minimum width in columns. A narrower terminal counts as having this width.
  private static let minWidth = 40

  /// Returns the width of the terminal at a descriptor, or `nil` if it is not a terminal.
  static func terminalWidth(_ descriptor: CInt) -> Int? {
    guard isatty(descriptor) == 1 else { return nil }
    return max(self.minWidth, self.reportedWidth(descriptor) ?? 80)
  }

  private static func reportedWidth(_ descriptor: CInt) -> Int? {
    var size = winsize()
    guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return nil }
    return Int(size.ws_col)
  }

  /// Sets COLUMNS if the terminal is very narrow. The argument parser wraps help to COLUMNS or the
  /// terminal's width, and traps if that is smaller than its indent. Must be called while there is
  /// only one thread.
  static func widenHelp() {
    let named = Self.variable("COLUMNS").flatMap { Int($0) }
    guard let width = named ?? self.reportedWidth(STDOUT_FILENO), width < self.minWidth else {
      return
    }
    setenv("COLUMNS", String(self.minWidth), 1)
  }

  static func writeAll(_ text: String, to descriptor: CInt) throws {
    var text = text
    try text.withUTF8 { try self.writeAll(UnsafeRawBufferPointer($0), to: descriptor) }
  }

  static func writeAll(_ bytes: UnsafeRawBufferPointer, to descriptor: CInt) throws {
    var rest = bytes
    while !rest.isEmpty {
      let count = Glibc.write(descriptor, rest.baseAddress, rest.count)
      if count >= 0 {
        rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(count))
      } else if errno == EPIPE {
        throw OutputClosed()
      } else if errno != EINTR {
        throw OutputError(description: "cannot write: \(SystemError())")
      }
    }
  }

  private static func localTime(_ timestamp: WallTime) -> Style.LocalTime {
    // The zone is the user's. The fraction is the same in all zones.
    var seconds = time_t(timestamp.microseconds / 1_000_000)
    var date = tm()
    localtime_r(&seconds, &date)
    func padded(_ number: Int, _ width: Int) -> String {
      let digits = String(number)
      return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }
    let milliseconds = Int(abs(timestamp.microseconds) % 1_000_000 / 1_000)
    let day = [Int(date.tm_year) + 1900, Int(date.tm_mon) + 1, Int(date.tm_mday)]
    let clock = [Int(date.tm_hour), Int(date.tm_min), Int(date.tm_sec)]
    return Style.LocalTime(
      date: day.map { padded($0, 2) }.joined(separator: "-"),
      time: clock.map { padded($0, 2) }.joined(separator: ":") + "." + padded(milliseconds, 3))
  }
}
