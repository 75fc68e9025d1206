import Glibc
import TestKit
import Testing

@testable import ConndServer

/// `lo` stands for a link that pppd has made: its name is that of a link in every namespace.
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

  @Test("the process that has locked the line is the one that has made the link")
  func link() throws {
    #expect(self.lines.link(of: "ttyUSB2") == nil)
    try self.directory.write("      4711\n", to: "run/lock/LCK..ttyUSB2")
    #expect(self.lines.link(of: "ttyUSB2") == nil)
    try self.directory.write("4712\n", to: "run/lo.pid")
    // A daemon that is called as no link is.
    try self.directory.write("4711\n", to: "run/crond.pid")
    #expect(self.lines.link(of: "ttyUSB2") == nil)
    try self.directory.write("4711\n", to: "run/lo.pid")
    #expect(self.lines.link(of: "ttyUSB2") == "lo")
    #expect(self.lines.link(of: "ttyUSB3") == nil)
  }

  @Test("of a newer pppd it is in a directory of its own")
  func directories() throws {
    try self.directory.write("4711\n", to: "run/lock/LCK..ttyACM0")
    try self.directory.write("4711\n", to: "run/pppd/lo.pid")
    #expect(self.lines.link(of: "ttyACM0") == "lo")
  }

  @Test("D8 what is no number, or somebody else's lock, says nothing")
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
