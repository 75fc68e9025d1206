import Expectation
import Glibc
import Logging
import Systemd

@testable import ConndServer

/// connd as it is, but for its main function: on a thread of this process, for as long as that lasts.
enum Daemon {
  /// In a directory that whoever runs this removes.
  static let path = "\(directory)/connd-\(getpid()).sock"

  private static let directory = getenv("FUZZ_DIRECTORY").map { String(cString: $0) } ?? "/tmp"

  static func start() {
    var thread = pthread_t()
    let result = pthread_create(
      &thread, nil,
      { _ in
        Daemon.run()
        return nil
      }, nil)
    expect(result == 0)
    for _ in 0..<1000 {
      let socket = Glibc.socket(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0)
      defer { close(socket) }
      if Client.connect(socket, Self.path) { return }
      usleep(10_000)
    }
    expect(false, "connd does not start")
  }

  private static func run() {
    var configuration = Configuration()
    // So that an input can hold a message that is too long.
    configuration.limits.messageSize = 4096
    let fixed = configuration
    let connd = Connd(
      configuration: fixed, readConfiguration: { () throws(ConfigurationError) in fixed },
      socketPath: Self.path, passed: .none, notifier: .inactive,
      logger: Logger(label: "connd") { _ in SwiftLogNoOpLogHandler() })
    do { try connd.runOnOneThread() } catch { expect(false, "connd has failed: \(error)") }
  }

  /// A client's preface, its settings and their acknowledgement, and a call of `GetStatus` without any field.
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
