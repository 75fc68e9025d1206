import Glibc
import TestKit
import TestTraits

/// A private message bus that connd takes for the system bus, and a scripted polkit on it.
final class PolkitBus {
  private let directory: TemporaryDirectory
  private let bus: RunningCommand
  private var service: RunningCommand?

  init() throws {
    self.directory = try TemporaryDirectory()
    let configuration = """
      <busconfig>
        <type>session</type>
        <listen>unix:path=\(self.directory.path)/bus</listen>
        <servicedir>\(self.directory.path)</servicedir>
        <policy context="default">
          <allow send_destination="*" eavesdrop="true"/>
          <allow eavesdrop="true"/>
          <allow own="*"/>
        </policy>
      </busconfig>
      """
    try TestSize.needsAll("D-Bus")
    self.bus = try RunningCommand([
      "dbus-daemon", "--nofork", "--nopidfile", "--print-address",
      "--config-file=\(try self.directory.write(configuration, to: "bus.conf"))",
    ])
    guard try self.bus.nextLine() != nil else { throw CommandError(self.bus.standardError) }
  }

  private var address: String { "unix:path=\(self.directory.path)/bus" }

  /// A command that starts connd with this bus.
  var prefix: [String] { ["env", "DBUS_SYSTEM_BUS_ADDRESS=\(self.address)"] }

  /// Starts polkit, which uses packages of the system's Python.
  func startService() throws {
    let service = try RunningCommand([
      "/usr/bin/python3", "-B", Checkout.path("Tests/Programs/python/polkitd.py"), self.address,
      try self.directory.write("no", to: "answer"),
    ])
    self.service = service
    guard try service.nextLine() == "ready" else { throw CommandError(service.standardError) }
  }

  /// Makes polkit activatable on the bus, with a start that fails.
  func install() throws {
    try self.directory.write(
      "[D-BUS Service]\nName=org.freedesktop.PolicyKit1\nExec=/bin/false\n",
      to: "org.freedesktop.PolicyKit1.service")
    try Command.run([
      "dbus-send", "--bus=\(self.address)", "--print-reply", "--dest=org.freedesktop.DBus", "/",
      "org.freedesktop.DBus.ReloadConfig",
    ])
  }

  func killService() throws {
    self.service?.signal(SIGKILL)
    try self.service?.wait()
  }

  /// Sets the answer from now on; see polkitd.py.
  func answer(_ word: String) throws { try self.directory.write(word, to: "answer") }

  /// The next query it received.
  func question() throws -> Question {
    guard let line = try self.service?.nextLine() else { throw CommandError("polkit has ended") }
    return try decode(line)
  }

  struct Question: Decodable, Hashable {
    struct Subject: Decodable, Hashable {
      var pid: Int
      var startTime: Int
      var uid: Int

      private enum CodingKeys: String, CodingKey {
        case pid, uid
        case startTime = "start-time"
      }
    }

    var kind: String
    var subject: Subject
    var action: String
    var details: Int
    var flags: Int
    var path: String
    var types: [String: String]
  }
}
