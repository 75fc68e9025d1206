import Glibc
import TestKit

/// A message bus of a test's own that connd takes for the system's, and a NetworkManager on it that says what the test has it say.
final class NetworkManagerBus {
  private let directory: TemporaryDirectory
  private let bus: RunningCommand
  private var service: RunningCommand?

  init() throws {
    self.directory = try TemporaryDirectory()
    guard mkfifo("\(self.directory.path)/commands", 0o600) == 0 else {
      throw CommandError("mkfifo: errno \(errno)")
    }
    self.bus = try RunningCommand([
      "dbus-daemon", "--session", "--nofork", "--nopidfile",
      "--address=unix:path=\(self.directory.path)/bus", "--print-address",
    ])
    guard try self.bus.nextLine() != nil else { throw CommandError(self.bus.standardError) }
  }

  private var address: String { "unix:path=\(self.directory.path)/bus" }

  /// What starts connd beside it.
  var prefix: [String] { ["env", "DBUS_SYSTEM_BUS_ADDRESS=\(self.address)"] }

  /// Starts NetworkManager; the packages that it is made of are those of the system's Python.
  func startService() throws {
    // Open for writing as well: its input never ends.
    let service = try RunningCommand([
      "sh", "-c", #"exec /usr/bin/python3 -B "$0" "$1" 0<>"$2""#,
      Programs.testFile("python/network_manager.py"), self.address,
      "\(self.directory.path)/commands",
    ])
    self.service = service
    guard try service.nextLine() == "ready" else { throw CommandError(service.standardError) }
  }

  func killService() throws {
    self.service?.signal(SIGKILL)
    try self.service?.wait()
  }

  /// Has the service do something; see its text.
  func tell(_ command: String) throws {
    let file = open("\(self.directory.path)/commands", O_WRONLY | O_CLOEXEC)
    defer { close(file) }
    let line = Array("\(command)\n".utf8)
    guard write(file, line, line.count) == line.count else { throw CommandError("errno \(errno)") }
    guard try self.service?.nextLine() == "done" else {
      throw CommandError(self.service?.standardError ?? "no service")
    }
  }
}
