import ArgumentParser
import Connectivity
import ConnectivityMonitor
import Glibc
import LinuxSupport

/// The exit statuses of connctl, which are part of its interface. Statuses from 64 on are from
/// sysexits.h.
enum ExitStatus {
  static let holds = ExitCode(0)
  static let doesNotHold = ExitCode(1)
  static let usage = ExitCode(64)
  static let notThere = ExitCode(69)
  static let refused = ExitCode(77)

  static let help = """
    EXIT STATUS
      0   done, or the condition holds
      1   the condition does not hold, or not in time;
          no path is satisfied; a name cannot be resolved;
          the output cannot be written
      64  wrong usage, or connd rejects the request
      69  connd is not running, at a limit, does not answer,
          or watches another network namespace
      77  connd refuses this user
    """
}

extension ConndError {
  var exitStatus: ExitCode {
    switch self.code {
    case .refused: ExitStatus.refused
    case .invalidRequest: ExitStatus.usage
    case .notAvailable, .limitReached, .otherNamespace, .breakerOpen, .notGuardable, .failed:
      ExitStatus.notThere
    }
  }

  /// Returns one line with the problem and what to do.
  ///
  /// - Parameters:
  ///   - socket: The path at which connd was expected.
  ///   - hasSystemd: Whether systemd runs this machine.
  func advice(
    socket: String?, hasSystemd: Bool = access("/run/systemd/system", F_OK) == 0
  ) -> String {
    let why = self.description
    return switch self.code {
    case .notAvailable:
      switch socket {
      case let socket? where Self.isOtherThanSocket(socket):
        "connd is not running: \(socket) is not a socket (name connd's socket with --socket or CONND_SOCKET)"
      case let socket? where Console.variable("CONND_SOCKET") == socket:
        "connd is not running: \(why) (the path is from CONND_SOCKET: unset it to use the system's connd, or start connd there)"
      case let socket? where hasSystemd && Self.isDefault(socket):
        "connd is not running: \(why) (start it with “systemctl start connd.socket”, or name its socket with --socket or CONND_SOCKET)"
      default:
        "connd is not running: \(why) (start connd there, or name its socket with --socket or CONND_SOCKET)"
      }
    case .refused:
      "connd refuses this user: \(why)"
    case .limitReached:
      "connd rejects this, because a limit is reached: \(why)"
    case .invalidRequest:
      "connd rejects the request: \(why)"
    case .otherNamespace, .breakerOpen, .notGuardable, .failed:
      socket.map(Self.isTooLong) ?? false ? why : "connd did not answer: \(why)"
    }
  }

  /// Whether a path is too long for a socket address, so that connctl could not connect.
  private static func isTooLong(_ path: String) -> Bool {
    path.utf8.count > UnixAddress.maxPath
  }

  /// Whether this is a default path of the system's connd.
  private static func isDefault(_ path: String) -> Bool {
    let unnamed = DefaultSocket.path(
      environment: { $0 == "CONND_SOCKET" ? nil : Console.variable($0) }, uid: geteuid(),
      exists: { access($0, F_OK) == 0 })
    return [DefaultSocket.system, unnamed].contains(path)
  }

  private static func isOtherThanSocket(_ path: String) -> Bool {
    // Opening a socket fails with ENXIO.
    let descriptor = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
    guard descriptor >= 0 else { return false }
    close(descriptor)
    return true
  }
}
