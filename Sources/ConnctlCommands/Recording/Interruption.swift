import CLinux
import Glibc
import Synchronization
import UnixTransport

/// Tells when somebody wants connctl to end, by Ctrl-C or otherwise, where there is something to be done before.
enum Interruption {
  /// The end of a pipe that a signal's handler may write to.
  private static let output = Atomic<CInt>(-1)

  /// From now on SIGINT, SIGTERM and SIGHUP are told, and end nothing by themselves. To be called once.
  ///
  /// - Parameter tell: called on a thread of its own.
  static func begin(_ tell: @escaping @Sendable () -> Void) throws {
    var ends: [CInt] = [-1, -1]
    guard clinux_pipe(&ends) == 0 else {
      throw OutputError(description: "cannot wait for signals: \(SystemError())")
    }
    let input = ends[0]
    Self.output.store(ends[1], ordering: .relaxed)
    let isThere = Thread.start(named: "connctl-signals") {
      var byte: UInt8 = 0
      while true {
        let count = read(input, &byte, 1)
        if count < 0, errno == EINTR { continue }
        guard count == 1 else { return }
        tell()
      }
    }
    guard isThere else { throw OutputError(description: "cannot wait for signals: no thread") }
    for number in [SIGINT, SIGTERM, SIGHUP] {
      signal(number) { _ in
        let error = errno
        var byte: UInt8 = 1
        _ = write(Interruption.output.load(ordering: .relaxed), &byte, 1)
        errno = error
      }
    }
  }
}
