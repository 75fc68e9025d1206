import Glibc
import TestKit
import TestTraits

/// A private message bus that connd takes for the system bus, and a scripted ModemManager on it.
final class ModemBus {
  private let directory: TemporaryDirectory
  private var bus: RunningCommand?
  private var service: RunningCommand?

  init() throws {
    self.directory = try TemporaryDirectory()
    guard mkfifo(self.commands, 0o600) == 0 else { throw CommandError("mkfifo: errno \(errno)") }
  }

  /// The address that the bus listens on.
  var socket: String { "\(self.directory.path)/bus" }
  private var address: String { "unix:path=\(self.socket)" }
  private var commands: String { "\(self.directory.path)/commands" }

  /// A command that starts connd with this bus.
  var prefix: [String] { ["env", "DBUS_SYSTEM_BUS_ADDRESS=\(self.address)"] }

  func startBus() throws {
    try TestSize.needsAll("D-Bus")
    let bus = try RunningCommand([
      "dbus-daemon", "--session", "--nofork", "--nopidfile", "--address=\(self.address)",
      "--print-address",
    ])
    self.bus = bus
    guard try bus.nextLine() != nil else { throw CommandError(bus.standardError) }
  }

  func killBus() throws {
    self.bus?.signal(SIGKILL)
    try self.bus?.wait()
    unlink(self.socket)
  }

  /// Starts ModemManager, which uses packages of the system's Python.
  func startService() throws {
    let service = try RunningCommand([
      "/usr/bin/python3", "-B", Checkout.path("Tests/Programs/python/modem_manager.py"),
      self.address,
      self.commands,
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
    let file = open(self.commands, O_WRONLY | O_CLOEXEC)
    defer { close(file) }
    let line = Array(command.split(whereSeparator: \.isNewline).joined().utf8) + [10]
    guard write(file, line, line.count) == line.count else { throw CommandError("errno \(errno)") }
    guard try self.service?.nextLine() == "done" else {
      throw CommandError(self.service?.standardError ?? "no service")
    }
  }

  /// Publishes a 4G modem in its home network, with one bearer for this link.
  func publishModem(bearer: Int = 0, interface: String = "ppp0") throws {
    try self.tell(
      """
      {"publish": {
        "Bearer/\(bearer)": {"Bearer": {"Interface": ["s", "\(interface)"], "Connected": ["b", true],
          "Suspended": ["b", false], "Ip4Config": ["a{sv}", {"method": "static"}]}},
        "Modem/0": {
          "Modem": {"AccessTechnologies": ["u", 16384], "Bearers": ["ao", ["Bearer/\(bearer)"]],
            "State": ["i", 11]},
          "Modem.Location": {"Location": ["a{uv}", {}]},
          "Modem.Modem3gpp": {"RegistrationState": ["u", 1], "OperatorName": ["s", "Example"]}}}}
      """)
  }
}

/// A line of `connctl links --json`, with the fields that the modem scenarios read.
struct ModemLinkReport: Decodable {
  struct Modem: Decodable, Hashable {
    var connected: Bool
    var suspended: Bool
    var technology: String?
    var roaming: Bool
    var signalQuality: Int?
  }

  var name: String
  var medium: String
  var evidence: ExplanationReport.Evidence?
  var expensive: Bool
  var modem: Modem?
}

extension Laboratory {
  func link(_ name: String) throws -> ModemLinkReport {
    let lines = try self.connctl("links", "--json").output.split(whereSeparator: \.isNewline)
    let links = try lines.map { try decode(String($0), as: ModemLinkReport.self) }
    guard let link = links.first(where: { $0.name == name }) else {
      throw CommandError("no link \(name): \(links)")
    }
    return link
  }
}
