import ArgumentParser
import Glibc

/// The program connd, when connctl runs it.
enum ConndProgram {
  /// Starts the connd next to connctl, or else the one in PATH.
  ///
  /// - Throws: `ExitCode`, after a remark, if connd cannot be started.
  static func start(_ arguments: [String], _ console: Console) throws -> ChildProcess {
    do {
      // systemd's resources for connctl, such as sockets, watchdog and directories, are not for
      // connd.
      let variables = [
        "NOTIFY_SOCKET", "WATCHDOG_USEC", "LISTEN_FDS", "RUNTIME_DIRECTORY", "STATE_DIRECTORY",
      ]
      return try ChildProcess(
        [Self.beside ?? "connd"] + arguments, variables: variables.map { ($0, "") })
    } catch let failure as CommandFailure {
      console.remark("\(failure) (searched next to connctl and in PATH)")
      throw ExitStatus.notThere
    }
  }

  private static var beside: String? {
    var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
    let count = readlink("/proc/self/exe", &buffer, buffer.count)
    let own = buffer.prefix(max(count, 0)).map(UInt8.init(bitPattern:))
    guard let end = own.lastIndex(of: UInt8(ascii: "/")) else { return nil }
    let path = String(decoding: own[...end], as: UTF8.self) + "connd"
    return access(path, X_OK) == 0 ? path : nil
  }
}
