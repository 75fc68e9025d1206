import ArgumentParser
import Glibc

/// The program connd, where connctl runs it itself.
enum ConndProgram {
  /// Starts the one beside connctl, or else that in PATH.
  ///
  /// - Throws: `ExitCode`, after a remark, where there is none.
  static func start(_ arguments: [String], _ console: Console) throws -> ChildProcess {
    do {
      // What systemd has given connctl is not meant for it: a socket, a watchdog, directories.
      let variables = [
        "NOTIFY_SOCKET", "WATCHDOG_USEC", "LISTEN_FDS", "RUNTIME_DIRECTORY", "STATE_DIRECTORY",
      ]
      return try ChildProcess(
        [Self.beside ?? "connd"] + arguments, variables: variables.map { ($0, "") })
    } catch let failure as CommandFailure {
      console.remark("\(failure) (it is looked for beside connctl, and in PATH)")
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
