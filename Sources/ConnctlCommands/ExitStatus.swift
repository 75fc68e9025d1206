import ArgumentParser
import ConnectivityClient

/// How connctl ends. The numbers are part of its interface (sysexits.h names those from 64 on).
enum ExitStatus {
  static let holds = ExitCode(0)
  static let doesNotHold = ExitCode(1)
  static let usage = ExitCode(64)
  static let notThere = ExitCode(69)
  static let refused = ExitCode(77)

  static let help = """
    EXIT STATUS
      0   done, or the condition holds
      1   the condition does not hold (or not in time), no path is satisfied,
          or the name cannot be resolved
      64  wrong usage, or connd does not accept what was asked for
      69  connd is not there
      77  connd refuses this user
    """
}

extension ConndError {
  var exitStatus: ExitCode {
    switch self {
    case .notThere, .failed: ExitStatus.notThere
    case .refused: ExitStatus.refused
    case .invalid: ExitStatus.usage
    }
  }

  /// One line that says what is wrong and what to do.
  var advice: String {
    switch self {
    case .notThere(let why):
      "connd is not there: \(why) (start it with “systemctl start connd.socket”, or name its socket with --socket)"
    case .refused(let why):
      "connd refuses this user: \(why) (join the socket's group, or ask as root)"
    case .invalid(let why):
      "connd does not accept this: \(why)"
    case .failed(let why):
      "connd did not answer: \(why)"
    }
  }
}
