import Connectivity
import ConnectivityJSON
import Glibc
import UnixTransport

/// Where a command writes to.
struct Console: Sendable {
  /// Writes to standard output, at once.
  ///
  /// - Throws: ``OutputClosed`` where nobody reads any more.
  var write: @Sendable (String) throws -> Void
  /// Writes to standard error.
  var complain: @Sendable (String) -> Void
  var style: Style
  var now: @Sendable () -> Timestamp
  /// Characters in a line of the terminal that standard error is; `nil` where it is none, and nothing is broken into
  /// lines: there is one for each error.
  var errorWidth: Int?
  /// What pictures are drawn with.
  var glyphs = Glyphs.unicode
  /// Standard output is a terminal on which pictures can change.
  var isLive = false
  /// Ends the process when nobody reads its output any more: who prints only what happens would else notice it with the next
  /// event, perhaps tomorrow.
  var endWithReader: @Sendable () -> Void = {}

  /// The console of the command that runs in this task.
  @TaskLocal static var current = Console.standard

  func print(_ lines: [String]) throws {
    guard !lines.isEmpty else { return }
    try self.write(lines.joined(separator: "\n") + "\n")
  }

  func print(_ json: JSON) throws {
    try self.write(json.line(terminator: "\n"))
  }

  /// A remark about the connection: one line on standard error.
  func remark(_ text: String) {
    // A name in it, an SSID for one, must not begin another line.
    self.complainInLines("connctl: \(text.printable)\n")
  }

  /// A remark for people only, which scripts need not expect.
  func hint(_ text: String) {
    if self.errorWidth != nil { self.remark(text) }
  }

  /// Writes to standard error, in lines that fit into the terminal's.
  func complainInLines(_ text: String) {
    let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map {
      String($0).printable[...]
    }
    guard let width = self.errorWidth else {
      return self.complain(lines.joined(separator: "\n"))
    }
    self.complain(lines.flatMap { Self.lines(of: $0, width: width) }.joined(separator: "\n"))
  }

  private static func lines(of text: Substring, width: Int) -> [String] {
    guard text.count > width else { return [String(text)] }
    var lines: [String] = []
    // What stands before the first word belongs to it.
    let start = text.firstIndex { $0 != " " } ?? text.endIndex
    var line = String(text[..<start])
    for word in text[start...].split(separator: " ") {
      if line.contains(where: { $0 != " " }) {
        if line.count + 1 + word.count > width {
          lines.append(line)
          line = "  "
        } else {
          line += " "
        }
      }
      line += word
    }
    return lines + [line]
  }
}

/// The reader of standard output went away, as `head` does: no reason to complain.
struct OutputClosed: Error {}

/// Standard output cannot be written, for a reason that the reader did not choose.
struct OutputError: Error, CustomStringConvertible {
  var description: String
}

extension Console {
  /// The process's own. Colour and width as the terminal has them; neither where it is none, so that each line is whole
  /// for grep(1) and its like.
  static let standard = Console(
    write: { try Console.writeAll($0, to: STDOUT_FILENO) },
    complain: { try? Console.writeAll($0, to: STDERR_FILENO) },
    style: Style(
      width: Console.terminalWidth(STDOUT_FILENO) ?? .max,
      color: Console.allowsColor(
        isTerminal: isatty(STDOUT_FILENO) == 1,
        environment: Console.variable),
      localTime: Console.localTime),
    now: {
      var time = timespec()
      clock_gettime(CLOCK_REALTIME, &time)
      return Timestamp(microseconds: Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1_000)
    }, errorWidth: Console.terminalWidth(STDERR_FILENO),
    glyphs: Glyphs.ofLocale(Console.variable),
    isLive: Console.movesCursor(
      isTerminal: isatty(STDOUT_FILENO) == 1, environment: Console.variable),
    endWithReader: Console.endWithPipe)

  /// As tail(1) does: poll(2) tells of a pipe without a reader, and a thread that waits for it alone costs no wake-up.
  private static func endWithPipe() {
    guard isatty(STDOUT_FILENO) == 0 else { return }
    _ = Thread.start(named: "connctl-output") {
      var output = pollfd(fd: STDOUT_FILENO, events: 0, revents: 0)
      while poll(&output, 1, -1) < 0, errno == EINTR {}
      // As where a write fails for want of a reader.
      if output.revents & Int16(POLLERR | POLLHUP) != 0 { _exit(0) }
    }
  }

  /// Whether the terminal has a cursor that moves by the sequences of ECMA-48, as all do whose TERM says what they are, but those of
  /// editors and of lines of paper.
  static func movesCursor(isTerminal: Bool, environment: (String) -> String?) -> Bool {
    isTerminal && !["", "dumb", "unknown", "emacs"].contains(environment("TERM") ?? "")
  }

  private static func variable(_ name: String) -> String? {
    getenv(name).map { String(cString: $0) }
  }

  /// See no-color.org; `TERM=dumb` is what editors and build tools set.
  static func allowsColor(isTerminal: Bool, environment: (String) -> String?) -> Bool {
    isTerminal && environment("NO_COLOR") ?? "" == "" && environment("TERM") != "dumb"
  }

  /// Less than this is taken for no width to write for.
  private static let leastWidth = 40

  /// Characters in a line of the terminal that a descriptor is; `nil` where it is none.
  static func terminalWidth(_ descriptor: CInt) -> Int? {
    guard isatty(descriptor) == 1 else { return nil }
    return max(self.leastWidth, self.reportedWidth(descriptor) ?? 80)
  }

  private static func reportedWidth(_ descriptor: CInt) -> Int? {
    var size = winsize()
    guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return nil }
    return Int(size.ws_col)
  }

  /// The parser breaks help into lines as wide as COLUMNS or the terminal says, and traps where they are narrower than
  /// its indent. To be called while there is one thread.
  static func widenHelp() {
    let named = getenv("COLUMNS").flatMap { Int(String(cString: $0)) }
    guard let width = named ?? self.reportedWidth(STDOUT_FILENO), width < self.leastWidth else {
      return
    }
    setenv("COLUMNS", String(self.leastWidth), 1)
  }

  static func writeAll(_ text: String, to descriptor: CInt) throws {
    var text = text
    try text.withUTF8 { bytes in
      var rest = UnsafeRawBufferPointer(bytes)
      while !rest.isEmpty {
        let count = Glibc.write(descriptor, rest.baseAddress, rest.count)
        if count >= 0 {
          rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(count))
        } else if errno == EPIPE {
          throw OutputClosed()
        } else if errno != EINTR {
          throw OutputError(description: "cannot write: \(String(cString: strerror(errno)))")
        }
      }
    }
  }

  private static func localTime(_ timestamp: Timestamp) -> Style.LocalTime {
    // The zone is the reader's; the fraction is the same in all of them.
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
