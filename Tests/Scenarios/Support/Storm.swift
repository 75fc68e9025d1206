import Glibc
import TestKit

/// The size of storms: `make storms` sets CONND_STORMS=full, and the ordinary tests run smaller
/// ones of the same kind.
enum Storm {
  static let isFull = getenv("CONND_STORMS").map { String(cString: $0) } == "full"

  static func size(_ ordinary: Int, full: Int) -> Int { self.isFull ? full : ordinary }

  /// Prints the figures of a full storm, which are not part of the test.
  static func note(_ text: @autoclosure () -> String) {
    if self.isFull { print("storm: \(text())") }
  }
}

/// Figures of a running connd from proc(5).
struct ProcessFigures {
  private let directory: String
  private let reader: String

  init(_ connd: RunningCommand) throws {
    self.directory = "/proc/\(connd.processIdentifier)"
    // Other threads may end in between.
    let files = "\(self.directory)/task/*/comm"
    let names = try Command.run(["sh", "-c", "grep -lsx connd-monitor \(files) || true"])
    guard let name = names.split(separator: "\n").first else {
      throw CommandError("connd has no thread that reads netlink")
    }
    self.reader = String(name.dropLast("/comm".count))
  }

  /// How often the thread that reads netlink has gone to sleep: once more than it has woken up.
  var sleeps: Int {
    get throws { try self.number("voluntary_ctxt_switches", in: "\(self.reader)/status") }
  }

  /// The same count, once the thread has finished its work.
  func sleepsAtRest() throws -> Int {
    try waitUntil("connd's reader sleeps") {
      try Command.run(["grep", "^State:", "\(self.reader)/status"]).contains("S (sleeping)")
    }
    return try self.sleeps
  }

  /// The anonymous memory, in kilobytes.
  var memory: Int { get throws { try self.number("RssAnon", in: "\(self.directory)/status") } }

  private func number(_ key: String, in file: String) throws -> Int {
    let line = try Command.run(["grep", "^\(key):", file])
    guard let number = Int(line.filter(\.isNumber)) else {
      throw CommandError("\(file): \(line)")
    }
    return number
  }
}

extension RunningCommand {
  /// How often connd has logged an overrun.
  var overruns: Int {
    self.standardError.split(separator: "\n").count { $0.contains("kernel messages were lost") }
  }
}
