/// A terminal with a shell in it: tmux, which draws what a program writes as any terminal would, and tells what is to be seen.
///
/// Used by one thread.
public final class TerminalEmulator {
  private let directory: TemporaryDirectory
  /// What starts the programs, as `ip netns exec` does.
  private let wrap: ([String]) -> [String]
  /// The server ends with its terminal; it is found by its socket.
  private var socket: String { "\(self.directory.path)/tmux" }

  /// What the shell asks with.
  public static let prompt = "ready>"

  /// Opens a terminal with bash in it, and returns when that waits for a command.
  ///
  /// - Parameters:
  ///   - environment: of the shell, on top of a small one of UTF-8 and UTC.
  ///   - wrap: how the command that starts it becomes one that starts it elsewhere.
  public init(
    columns: Int, rows: Int, environment: [String: String] = [:],
    wrap: @escaping ([String]) -> [String] = { $0 }
  ) throws {
    self.directory = try TemporaryDirectory()
    self.wrap = wrap
    // None of the user's settings: neither colours of a status line nor other keys.
    try self.directory.write("set -g status off\nset -g escape-time 0\n", to: "tmux.conf")
    var variables = [
      "LC_ALL": "C.UTF-8", "TZ": "UTC", "PS1": Self.prompt, "HISTFILE": "",
      "HOME": self.directory.path,
      "NO_COLOR": "",
    ]
    variables.merge(environment) { $1 }
    // TERM is tmux's to say, but where a test says it.
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

  /// What is to be seen, row by row, without blanks at their ends.
  public func screen() throws -> [String] {
    let rows = try self.tmux("capture-pane", "-p")
      .split(separator: "\n", omittingEmptySubsequences: false).map { row in
        String(row.reversed().drop { $0 == " " }.reversed())
      }
    // The last row ends with a line's end, too.
    return Array(rows.dropLast())
  }

  /// The same with the colours, as sequences.
  public func coloredScreen() throws -> String { try self.tmux("capture-pane", "-p", "-e") }

  /// Looks until a condition holds of what is to be seen.
  ///
  /// - Returns: What is to be seen then.
  /// - Throws: where it does not come true in time, with what there was.
  @discardableResult
  public func wait(
    _ what: String, within deadline: Duration = .seconds(20), _ condition: ([String]) -> Bool
  ) throws -> [String] {
    let end = ContinuousClock.now + deadline
    while true {
      let screen = try self.screen()
      if condition(screen) { return screen }
      guard ContinuousClock.now < end else {
        throw CommandError("it never came true that \(what):\n\(screen.joined(separator: "\n"))")
      }
    }
  }

  /// Types text, as it is.
  public func type(_ text: String) throws { try self.tmux("send-keys", "-l", text) }

  /// Presses a key by tmux's name for it: `Enter`, `C-c`.
  public func press(_ key: String) throws { try self.tmux("send-keys", key) }

  /// Types a command and has it run.
  public func run(_ command: String) throws {
    try self.type(command)
    try self.press("Enter")
  }

  public func resize(columns: Int, rows: Int) throws {
    try self.tmux("resize-window", "-x", "\(columns)", "-y", "\(rows)")
  }

  /// Whether the cursor is to be seen, and whether a program has the other screen.
  public func modes() throws -> (cursor: Bool, alternate: Bool) {
    let flags = try self.tmux("display-message", "-p", "#{cursor_flag} #{alternate_on}")
    return (flags.hasPrefix("1"), flags.contains(" 1"))
  }
}
