import Glibc
import Synchronization
import TestKit
import Testing

@testable import LinuxSupport

@Suite("Links of serial lines")
struct SerialLinesTests {
  private let directory: TemporaryDirectory

  init() throws {
    self.directory = try TemporaryDirectory()
    try Command.run([
      "mkdir", "-p", "\(self.directory.path)/run/lock", "\(self.directory.path)/run/pppd",
      "\(self.directory.path)/sys/class/net/ppp0",
    ])
  }

  private var lines: SerialLines { self.lines(ofRoot: getuid()) }

  private func lines(ofRoot root: uid_t) -> SerialLines {
    let path = self.directory.path
    return SerialLines(root: "\(path)/sys", run: "\(path)/run", from: MachineFiles(root: root))
  }

  @Test("the link belongs to the process that has locked the serial line")
  func link() throws {
    #expect(self.lines.link(on: "ttyUSB2") == nil)
    try self.directory.write("      4711\n", to: "run/lock/LCK..ttyUSB2")
    #expect(self.lines.link(on: "ttyUSB2") == nil)
    try self.directory.write("4712\n", to: "run/ppp0.pid")
    // A daemon's pid file that is not named like a link.
    try self.directory.write("4711\n", to: "run/crond.pid")
    #expect(self.lines.link(on: "ttyUSB2") == nil)
    try self.directory.write("4711\n", to: "run/ppp0.pid")
    #expect(self.lines.link(on: "ttyUSB2") == "ppp0")
    #expect(self.lines.link(on: "ttyUSB3") == nil)
  }

  @Test("a newer pppd's pid file is in a directory of its own")
  func directories() throws {
    try self.directory.write("4711\n", to: "run/lock/LCK..ttyACM0")
    try self.directory.write("4711\n", to: "run/pppd/ppp0.pid")
    #expect(self.lines.link(on: "ttyACM0") == "ppp0")
  }

  @Test("D8 malformed or foreign lock files are ignored")
  func nonsense() throws {
    try self.directory.write("4711\n", to: "run/ppp0.pid")
    for text in ["", "ppp", "-4711", "4711 4711 x", "0", String(repeating: " ", count: 1000)] {
      try self.directory.write(text, to: "run/lock/LCK..ttyUSB2")
      #expect(self.lines.link(on: "ttyUSB2") == nil)
    }
    try self.directory.write("4711\n", to: "run/lock/LCK..ttyUSB2")
    #expect(self.lines(ofRoot: getuid() + 1).link(on: "ttyUSB2") == nil)
    let lock = "\(self.directory.path)/run/lock/LCK..ttyUSB3"
    #expect(symlink("\(self.directory.path)/run/ppp0.pid", lock) == 0)
    #expect(self.lines.link(on: "ttyUSB3") == nil)
  }

  /// Replaces a file again and again, as an attacker would.
  private final class Swapper: Sendable {
    let isFinished = Atomic(false)
    let swaps = Atomic(0)

    func run(_ paths: [String], over path: String) {
      while !self.isFinished.load(ordering: .relaxed) {
        for source in paths {
          unlink("\(path).new")
          Glibc.link(source, "\(path).new")
          rename("\(path).new", path)
          self.swaps.wrappingAdd(1, ordering: .relaxed)
        }
      }
    }
  }

  @Test(
    "D8 K5 a user swaps a lock of root's for a forged one while it is read → only root's is read",
    .enabled(if: getuid() == 0, "needs a file of another user"))
  func swapped() async throws {
    let lock = "\(self.directory.path)/run/lock/LCK..ttyUSB2"
    let (own, forged) = ("\(self.directory.path)/own", "\(self.directory.path)/forged")
    try self.directory.write("815\n", to: "own")
    try self.directory.write("4711\n", to: "forged")
    try #require(chown(forged, 65534, 65534) == 0)
    let swapper = Swapper()
    let thread = Task.detached { swapper.run([own, forged], over: lock) }
    var found: [UInt32: Int] = [:]
    while found[815, default: 0] < 20_000 || swapper.swaps.load(ordering: .relaxed) < 20_000 {
      if let process = self.lines.owner(ofLine: "ttyUSB2") { found[process, default: 0] += 1 }
    }
    swapper.isFinished.store(true, ordering: .relaxed)
    await thread.value
    #expect(found.keys.sorted() == [815])
  }
}
