import ArgumentParser
import CLinux
import Glibc
import LinuxSupport

/// A user's command that connctl has started, in its own process group, so that signals also reach
/// its children.
struct ChildProcess: Sendable {
  let id: pid_t

  /// Starts a command, which is searched in PATH.
  ///
  /// - Parameters:
  ///   - variables: Additions to connctl's environment.
  ///   - input: The command's standard input, or `nil` for connctl's.
  /// - Throws: ``CommandFailure``.
  init(_ command: [String], variables: [(name: String, value: String)] = [], input: String? = nil)
    throws
  {
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    let file = try input.map { try Self.file(of: $0) }
    defer { if let file { close(file) } }
    if let file { posix_spawn_file_actions_adddup2(&actions, file, STDIN_FILENO) }

    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    posix_spawnattr_setflags(
      &attributes, Int16(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF))
    posix_spawnattr_setpgroup(&attributes, 0)
    // connctl ignores SIGPIPE, and child processes would inherit that.
    var pipes = sigset_t()
    sigemptyset(&pipes)
    sigaddset(&pipes, SIGPIPE)
    posix_spawnattr_setsigdefault(&attributes, &pipes)

    let arguments = command.map { strdup($0) } + [nil]
    let environment = Self.environment(with: variables).map { strdup($0) } + [nil]
    defer { (arguments + environment).forEach { free($0) } }
    var id: pid_t = 0
    let result = posix_spawnp(
      &id, command.first ?? "", &actions, &attributes, arguments, environment)
    guard result == 0 else { throw CommandFailure(command, SystemError(result)) }
    self.id = id
  }

  /// Checks that a command exists and can be executed, as execvp(3) would find it.
  ///
  /// - Throws: ``CommandFailure``.
  static func check(_ command: [String]) throws {
    let name = command.first ?? ""
    let search = Console.variable("PATH") ?? "/bin:/usr/bin"
    let files =
      name.contains("/")
      ? [name]
      : search.split(separator: ":", omittingEmptySubsequences: false).map {
        $0.isEmpty ? name : "\($0)/\(name)"
      }
    var reason = SystemError(ENOENT)
    for file in files {
      var status = stat()
      guard stat(file, &status) == 0 else { continue }
      if status.st_mode & S_IFMT == S_IFREG, access(file, X_OK) == 0 { return }
      reason = SystemError(EACCES)
    }
    throw CommandFailure(command, reason)
  }

  /// Creates a file in memory, because a pipe would need a writer while the command reads.
  private static func file(of text: String) throws -> CInt {
    let file = clinux_memory_file("event")
    var text = text
    let isWritten = text.withUTF8 { write(file, $0.baseAddress, $0.count) == $0.count }
    guard file >= 0, isWritten, lseek(file, 0, SEEK_SET) == 0 else {
      throw OutputError(description: "cannot keep the event: \(SystemError())")
    }
    return file
  }

  private static func environment(with variables: [(name: String, value: String)]) -> [String] {
    var all = variables.map { "\($0.name)=\($0.value)" }
    var next = clinux_environment()
    while let entry = next?.pointee {
      let text = String(cString: entry)
      if !variables.contains(where: { text.hasPrefix("\($0.name)=") }) { all.append(text) }
      next = next?.advanced(by: 1)
    }
    return all
  }

  /// Returns when the command has ended, with its exit status as in a shell. Must be called only
  /// once. Meanwhile it reaps orphans that connctl has adopted (`PR_SET_CHILD_SUBREAPER`).
  func end(reapingOrphans reapsOrphans: Bool = false) async -> ExitCode {
    let id = self.id
    return await withCheckedContinuation { continuation in
      let wait: @Sendable () -> Void = {
        var status: CInt = 0
        while true {
          let ended = waitpid(reapsOrphans ? -1 : id, &status, 0)
          if ended == id || ended < 0 && errno != EINTR { break }
        }
        let signal = status & 0x7F
        continuation.resume(
          returning: ExitCode(signal == 0 ? status >> 8 & 0xFF : 128 + signal))
      }
      // If no thread can be started, connctl blocks until the command has ended.
      if !Thread.start(named: "connctl-command", wait) { wait() }
    }
  }

  /// If connctl has the terminal, gives it to the command. Ctrl-C then ends the command, and with
  /// it connctl.
  ///
  /// - Returns: Whether the command has the terminal.
  @discardableResult
  func takeTerminal() -> Bool {
    guard isatty(STDIN_FILENO) == 1, tcgetpgrp(STDIN_FILENO) == getpgrp() else { return false }
    Glibc.signal(SIGTTOU, SIG_IGN)
    return tcsetpgrp(STDIN_FILENO, self.id) == 0
  }

  /// Gives the command the terminal while `body` runs.
  func inForeground<Result>(_ body: () async -> Result) async -> Result {
    let hasTerminal = self.takeTerminal()
    // The command may have used the terminal too early, and have been stopped (SIGTTOU).
    self.signal(SIGCONT)
    defer { if hasTerminal { tcsetpgrp(STDIN_FILENO, getpgrp()) } }
    return await body()
  }

  /// Sends a signal to the process group.
  func signal(_ signal: CInt) { kill(-self.id, signal) }
}

/// The error of a command that cannot be run.
struct CommandFailure: Error, CustomStringConvertible {
  private let command: String
  private let reason: SystemError

  init(_ command: [String], _ reason: SystemError = SystemError()) {
    self.command = command.first ?? ""
    self.reason = reason
  }

  var description: String { "cannot run “\(self.command)”: \(self.reason)" }

  /// The exit status as in a shell.
  var exitStatus: ExitCode { ExitCode(self.reason.code == ENOENT ? 127 : 126) }
}
