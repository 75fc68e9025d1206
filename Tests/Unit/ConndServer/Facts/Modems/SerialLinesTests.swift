import Glibc
import TestKit
import Testing

@testable import ConndServer

/// `lo` stands for a link that pppd has made, because it exists in every namespace.
@Suite("Links of serial lines")
struct SerialLinesTests {
  private let directory: TemporaryDirectory

  init() throws {
    self.directory = try TemporaryDirectory()
    try Command.run([
      "mkdir", "-p", "\(self.directory.path)/run/lock", "\(self.directory.path)/run/pppd",
    ])
  }

  private var lines: SerialLines { SerialLines(root: self.directory.path, owner: getuid()) }

  @Test("the link belongs to the process that has locked the serial line")
  func link() throws {
    #expect(self.lines.link(of: "ttyUSB2") == nil)
    try self.directory.write("      4711\n", to: "run/lock/LCK..ttyUSB2")
    #expect(self.lines.link(of: "ttyUSB2") == nil)
    try self.directory.write("4712\n", to: "run/lo.pid")
    // A daemon's pid file that is not named like a link.
    try self.directory.write("4711\n", to: "run/crond.pid")
    #expect(self.lines.link(of: "ttyUSB2") == nil)
    try self.directory.write("4711\n", to: "run/lo.pid")
    #expect(self.lines.link(of: "ttyUSB2") == "lo")
    #expect(self.lines.link(of: "ttyUSB3") == nil)
  }

  @Test("a newer pppd's pid file is in a directory of its own")
  func directories() throws {
    try self.directory.write("4711\n", to: "run/lock/LCK..ttyACM0")
    try self.directory.write("4711\n", to: "run/pppd/lo.pid")
    #expect(self.lines.link(of: "ttyACM0") == "lo")
  }

  @Test("D8 malformed or foreign lock files are ignored")
  func nonsense() throws {
    try self.directory.write("4711\n", to: "run/lo.pid")
    for text in ["", "ppp", "-4711", "4711 4711 x", "0", String(repeating: " ", count: 1000)] {
      try self.directory.write(text, to: "run/lock/LCK..ttyUSB2")
      #expect(self.lines.link(of: "ttyUSB2") == nil)
    }
    try self.directory.write("4711\n", to: "run/lock/LCK..ttyUSB2")
    var others = self.lines
    others.owner = getuid() + 1
    #expect(others.link(of: "ttyUSB2") == nil)
    let lock = "\(self.directory.path)/run/lock/LCK..ttyUSB3"
    #expect(symlink("\(self.directory.path)/run/lo.pid", lock) == 0)
    #expect(self.lines.link(of: "ttyUSB3") == nil)
  }
}
