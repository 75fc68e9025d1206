import Glibc
import TestKit

/// How large storms are: `make storms` sets CONND_STORMS=full, and the ordinary tests run smaller ones of the same kind.
enum Storm {
  static let isFull = getenv("CONND_STORMS").map { String(cString: $0) } == "full"

  static func size(_ ordinary: Int, full: Int) -> Int { self.isFull ? full : ordinary }

  /// Prints what a full storm has shown; nothing of it is a test.
  static func note(_ text: @autoclosure () -> String) {
    if self.isFull { print("storm: \(text())") }
  }
}

/// What proc(5) tells of a running connd.
struct ProcessFigures {
  private let directory: String
  private let reader: String

  init(_ connd: RunningCommand) throws {
    self.directory = "/proc/\(connd.processIdentifier)"
    // Other threads may end meanwhile.
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

  /// The same, once it has dealt with all there was.
  func sleepsAtRest() throws -> Int {
    try waitUntil("connd's reader sleeps") {
      try Command.run(["grep", "^State:", "\(self.reader)/status"]).contains("S (sleeping)")
    }
    return try self.sleeps
  }

  /// The memory that no file stands for, in kilobytes.
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
  /// How often connd has said that messages came faster than it read them.
  var overruns: Int {
    self.standardError.split(separator: "\n").count { $0.contains("faster than they were read") }
  }
}
