import Connectivity
import Glibc
import TestKit
import Testing

@testable import LinuxSupport

/// A tree like /sys and /run, with a modem that has three serial lines. pppd has locked the third.
@Suite("K5 the driver of a ppp link's serial line")
struct SerialDriverTests {
  private static let modem = "sys/devices/pci0000:00/0000:00:14.0/usb1/1-3"
  private let directory: TemporaryDirectory

  init() throws {
    self.directory = try TemporaryDirectory()
    for line in 0...2 { try self.plugIn("ttyUSB\(line)", "usb-serial/drivers/option1") }
    for directory in ["sys/class/net/ppp0", "run/lock", "run/pppd"] {
      try Command.run(["mkdir", "-p", "\(self.directory.path)/\(directory)"])
    }
    try self.directory.write("9\n", to: "sys/class/net/ppp0/ifindex")
    try self.directory.write("DEVTYPE=ppp\nINTERFACE=ppp0\n", to: "sys/class/net/ppp0/uevent")
  }

  /// As with usb-serial and cdc_acm: the line's device is the one that the driver is bound to.
  private func plugIn(_ line: String, _ driver: String) throws {
    let device = "\(self.directory.path)/\(Self.modem)/1-3:1.0/\(line)"
    let tty = "\(device)/tty/\(line)"
    let drivers = "\(self.directory.path)/sys/bus/\(driver)"
    let list = "\(self.directory.path)/sys/class/tty"
    try Command.run(["mkdir", "-p", tty, drivers, list])
    try Command.run(["ln", "-s", drivers, "\(device)/driver"])
    try Command.run(["ln", "-s", "../../../\(line)", "\(tty)/device"])
    try Command.run(["ln", "-s", tty, "\(list)/\(line)"])
  }

  private func driver(of name: String = "ppp0", kind: String = "ppp", root: uid_t? = nil)
    -> String?
  {
    let path = self.directory.path
    return DeviceReader(
      root: "\(path)/sys", run: "\(path)/run", from: MachineFiles(root: root ?? getuid())
    ).device(of: Link(index: 9, name: name, kind: kind)).serialDriver
  }

  @Test("K5 the driver comes from the line that the link's pppd has locked")
  func found() throws {
    #expect(self.driver() == nil)
    try self.directory.write("4712\n", to: "run/lock/LCK..ttyUSB0")
    try self.directory.write("      4711\n", to: "run/lock/LCK..ttyUSB2")
    #expect(self.driver() == nil)
    try self.directory.write("4711\n", to: "run/ppp0.pid")
    #expect(self.driver() == "option1")
    #expect(self.driver(kind: "veth") == nil, "only a ppp link is looked up")
    try Command.run(["rm", "\(self.directory.path)/run/ppp0.pid"])
    try self.directory.write("4711\n", to: "run/pppd/ppp0.pid")
    #expect(self.driver() == "option1", "of pppd 2.5")
  }

  @Test(
    "K5 the driver's name is read",
    arguments: [
      ("ttyACM0", "usb/drivers/cdc_acm", "cdc_acm"),
      ("ttyS0", "platform/drivers/serial8250", "serial8250"), ("tty2", "x/drivers/none", nil),
      ("ttyHS3", "usb/drivers/hso", "hso"),
    ])
  func drivers(line: String, path: String, driver: String?) throws {
    try self.plugIn(line, path)
    try self.directory.write("4711\n", to: "run/ppp0.pid")
    try self.directory.write("4711\n", to: "run/lock/LCK..\(line)")
    #expect(self.driver() == driver)
  }

  @Test("K5 DSL has no serial line")
  func ethernet() throws {
    try self.directory.write("4711\n", to: "run/ppp0.pid")
    try self.directory.write("815\n", to: "run/lock/LCK..ttyUSB2")
    #expect(self.driver() == nil)
  }

  @Test("D8 any number of forged lock files → the line's own is found")
  func crowded() throws {
    try self.directory.write("4711\n", to: "run/ppp0.pid")
    try self.directory.write("4711\n", to: "run/lock/LCK..ttyUSB2")
    for number in 0..<200 { try self.directory.write("", to: "run/lock/LCK..tty!\(number)") }
    #expect(self.driver() == "option1")
  }

  @Test("D8 a lock not owned by root, or a malformed one, is ignored")
  func nonsense() throws {
    try self.directory.write("4711\n", to: "run/ppp0.pid")
    try self.directory.write("4711\n", to: "run/lock/LCK..ttyUSB2")
    #expect(self.driver(root: getuid() + 1) == nil)
    for text in ["", "ppp", "-4711", "0", "4711 x", String(repeating: " ", count: 100) + "4711"] {
      try self.directory.write(text, to: "run/lock/LCK..ttyUSB2")
      #expect(self.driver() == nil, "\(text)")
    }
    let lock = "\(self.directory.path)/run/lock/LCK..ttyUSB2"
    try Command.run(["rm", lock])
    #expect(symlink("\(self.directory.path)/run/ppp0.pid", lock) == 0)
    #expect(self.driver() == nil, "a link to a file that is root's")
    try Command.run(["rm", lock])
    #expect(mkfifo(lock, 0o644) == 0)
    #expect(self.driver() == nil, "a pipe that nobody writes to")
  }
}
