/// A terminal with a shell in it: tmux renders a program's output like a terminal, and shows the
/// screen.
///
/// Used by one thread.
public final class TerminalEmulator {
  private let directory: TemporaryDirectory
  /// Wraps the commands that start programs, as `ip netns exec` does.
  private let wrap: ([String]) -> [String]
  /// The server ends with its terminal; its socket identifies it.
  private var socket: String { "\(self.directory.path)/tmux" }

  /// The shell's prompt.
  public static let prompt = "ready>"

  /// Opens a terminal with bash in it, and returns when bash waits for a command.
  ///
  /// - Parameters:
  ///   - environment: the shell's environment, on top of a small one with UTF-8 and UTC.
  ///   - wrap: wraps the command that starts it.
  public init(
    columns: Int, rows: Int, environment: [String: String] = [:],
    wrap: @escaping ([String]) -> [String] = { $0 }
  ) throws {
    self.directory = try TemporaryDirectory()
    self.wrap = wrap
    // Without the user's settings, such as a status line or other keys.
    try self.directory.write("set -g status off\nset -g escape-time 0\n", to: "tmux.conf")
    var variables = [
      "LC_ALL": "C.UTF-8", "TZ": "UTC", "PS1": Self.prompt, "HISTFILE": "",
      "HOME": self.directory.path,
      "NO_COLOR": "",
    ]
    variables.merge(environment) { $1 }
    // tmux sets TERM, unless a test does.
    let assignments = variables.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }
    let shell = ["env"] + assignments + ["bash", "--norc", "--noprofile", "-i"]
    try Command.run(
      self.wrap(
        [
          "env", "LC_ALL=C.UTF-8", "TERM=xterm-256color", "tmux", "-u", "-S", self.socket, "-f",
          "\(self.directory.path)/tmux.conf", "new-session", "-d", "-x", "\(columns)", "-y",
          "\(rows)",
        ] + shell))
    try self.wait("the shell waits") { $0.first?.hasPrefix(Self.prompt) == true }
  }

  deinit { _ = try? self.tmux("kill-server") }

  @discardableResult
  private func tmux(_ arguments: String...) throws -> String {
    try Command.run(
      ["env", "LC_ALL=C.UTF-8", "tmux", "-u", "-S", self.socket] + arguments)
  }

  /// The visible rows, without trailing blanks.
  public func screen() throws -> [String] {
    let rows = try self.tmux("capture-pane", "-p")
      .split(separator: "\n", omittingEmptySubsequences: false).map { row in
        String(row.reversed().drop { $0 == " " }.reversed())
      }
    // The last row also ends with a line break.
    return Array(rows.dropLast())
  }

  /// The same with colours, as escape sequences.
  public func coloredScreen() throws -> String { try self.tmux("capture-pane", "-p", "-e") }

  /// Polls the screen until a condition holds.
  ///
  /// - Returns: The screen.
  /// - Throws: if it does not become true in time, with the last screen.
  @discardableResult
  public func wait(
    _ what: String, within deadline: Duration = .seconds(20), _ condition: ([String]) -> Bool
  ) throws -> [String] {
    let patience = Patience(deadline)
    while true {
      let screen = try self.screen()
      if condition(screen) { return screen }
      guard !patience.isOver else {
        throw CommandError("it never came true that \(what):\n\(screen.joined(separator: "\n"))")
      }
    }
  }

  /// Types text literally.
  public func type(_ text: String) throws { try self.tmux("send-keys", "-l", text) }

  /// Presses a key by tmux's name for it: `Enter`, `C-c`.
  public func press(_ key: String) throws { try self.tmux("send-keys", key) }

  /// Types a command and runs it.
  public func run(_ command: String) throws {
    try self.type(command)
    try self.press("Enter")
  }

  public func resize(columns: Int, rows: Int) throws {
    try self.tmux("resize-window", "-x", "\(columns)", "-y", "\(rows)")
  }

  /// Whether the cursor is visible, and whether a program uses the alternate screen.
  public func modes() throws -> (cursor: Bool, alternate: Bool) {
    let flags = try self.tmux("display-message", "-p", "#{cursor_flag} #{alternate_on}")
    return (flags.hasPrefix("1"), flags.contains(" 1"))
  }
}
