import Expectation
import Glibc
import LinuxSupport
import Logging

@testable import ConndServer
@testable import Systemd

/// connd without its main function, on a thread of this process, for the process's lifetime.
enum Daemon {
  /// In a directory that the calling script removes.
  static let path = "\(directory)/connd-\(getpid()).sock"

  private static let directory = getenv("FUZZ_DIRECTORY").map { String(cString: $0) } ?? "/tmp"

  /// Clients that connect before connd is ready wait in the backlog, as if systemd held the socket.
  private static let listener: CInt = {
    let listener = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
    let isBound = withUnixAddress(path) { bind(listener, $0, $1) } == 0
    expect(isBound && listen(listener, SOMAXCONN) == 0, "no socket at \(path): \(errno)")
    return listener
  }()

  static func start() {
    expect(self.listener >= 0)
    var thread = pthread_t()
    let result = pthread_create(
      &thread, nil,
      { _ in
        Daemon.run()
        return nil
      }, nil)
    expect(result == 0)
  }

  private static func run() {
    var configuration = Configuration()
    // So that an input can contain a message that is too long.
    configuration.limits.messageSize = 4096
    let fixed = configuration
    let passed = PassedSockets(sockets: [
      .init(name: "fuzz", descriptor: Self.listener, kind: .unixListener(path: Self.path))
    ])
    let connd = Connd(
      configuration: fixed, readConfiguration: { () throws(ConfigurationError) in fixed },
      socketPath: Self.path, passed: passed, notifier: .inactive,
      logger: Logger(label: "connd") { _ in SwiftLogNoOpLogHandler() })
    do { try connd.runOnOneThread() } catch { expect(false, "connd has failed: \(error)") }
  }

  /// A client's preface, its settings and their acknowledgement, and a call of `GetStatus` without
  /// fields.
  static let honestRequest: [UInt8] = {
    var headers: [UInt8] = []
    for (name, value) in [
      (":method", "POST"), (":scheme", "http"),
      (":path", "/connectivity.v1.Connectivity/GetStatus"), ("content-type", "application/grpc"),
      ("te", "trailers"),
    ] {
      headers += [0, UInt8(name.utf8.count)] + Array(name.utf8)
      headers += [UInt8(value.utf8.count)] + Array(value.utf8)
    }
    var request = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
    request += [0, 0, 0, 4, 0, 0, 0, 0, 0]
    request += [0, 0, 0, 4, 1, 0, 0, 0, 0]
    request += [0, 0, UInt8(headers.count), 1, 4, 0, 0, 0, 1] + headers
    request += [0, 0, 5, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0]
    return request
  }()
}
