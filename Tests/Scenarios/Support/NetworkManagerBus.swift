import Glibc
import TestKit
import TestTraits

/// A private message bus that connd takes for the system bus, and a scripted NetworkManager on it.
final class NetworkManagerBus {
  private let directory: TemporaryDirectory
  private let bus: RunningCommand
  private var service: RunningCommand?

  init() throws {
    self.directory = try TemporaryDirectory()
    guard mkfifo("\(self.directory.path)/commands", 0o600) == 0 else {
      throw CommandError("mkfifo: errno \(errno)")
    }
    try TestSize.needsAll("D-Bus")
    self.bus = try RunningCommand([
      "dbus-daemon", "--session", "--nofork", "--nopidfile",
      "--address=unix:path=\(self.directory.path)/bus", "--print-address",
    ])
    guard try self.bus.nextLine() != nil else { throw CommandError(self.bus.standardError) }
  }

  private var address: String { "unix:path=\(self.directory.path)/bus" }

  /// A command that starts connd with this bus.
  var prefix: [String] { ["env", "DBUS_SYSTEM_BUS_ADDRESS=\(self.address)"] }

  /// Starts NetworkManager, which uses packages of the system's Python.
  func startService() throws {
    // Also open for writing, so that its input never ends.
    let service = try RunningCommand([
      "sh", "-c", #"exec /usr/bin/python3 -B "$0" "$1" 0<>"$2""#,
      Checkout.path("Tests/Programs/python/network_manager.py"), self.address,
      "\(self.directory.path)/commands",
    ])
    self.service = service
    guard try service.nextLine() == "ready" else { throw CommandError(service.standardError) }
  }

  func killService() throws {
    self.service?.signal(SIGKILL)
    try self.service?.wait()
  }

  /// Sends the service a command; see its source.
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
