import ArgumentParser
import Glibc

/// The user's pager: PAGER, or less(1).
enum Pager {
  /// Shows a text in the pager if it is longer than the screen.
  ///
  /// - Returns: Whether it was shown. Otherwise the caller prints it.
  static func show(_ text: String, lines: Int) async -> Bool {
    var size = winsize()
    guard isatty(STDOUT_FILENO) == 1, isatty(STDIN_FILENO) == 1,
      ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_row > 0, lines >= size.ws_row,
      let command = self.command(Console.variable)
    else { return false }
    // With these options, less passes colours on, and exits immediately if the text is short. In
    // secure mode, less starts no other program, because sudo(8) may have allowed only connctl.
    let variables = [("LESS", Console.variable("LESS") ?? "FRX"), ("LESSSECURE", "1")]
    guard let pager = try? ChildProcess(command, variables: variables, input: text) else {
      return false
    }
    let status = await pager.inForeground { await pager.end() }
    return status.rawValue != 127
  }

  /// Returns the command, or `nil` if the user wants no pager or less is missing.
  static func command(
    _ environment: (String) -> String?, exists: ([String]) -> Bool = Self.exists
  ) -> [String]? {
    guard !["dumb", "emacs"].contains(environment("TERM") ?? "dumb") else { return nil }
    guard let pager = environment("PAGER") else { return exists(["less"]) ? ["less"] : nil }
    return ["", "cat"].contains(pager) ? nil : ["sh", "-c", pager]
  }

  private static func exists(_ command: [String]) -> Bool {
    (try? ChildProcess.check(command)) != nil
  }
}
