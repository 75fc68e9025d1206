import Glibc
import TestKit

/// What a process takes of the machine, as /proc tells it.
struct Vitals {
  let process: pid_t
  private let peak: Int

  /// From now on memory is compared with what it is now.
  init(of process: pid_t) throws {
    self.process = process
    // Begins a new peak (proc_pid_clear_refs(5)).
    try Command.run(["sh", "-c", "echo 5 >/proc/\(process)/clear_refs"])
    self.peak = try Self.peak(of: process)
  }

  /// By how many KiB the resident memory has grown, at its highest.
  var growth: Int { get throws { try Self.peak(of: self.process) - self.peak } }

  var descriptors: Int {
    get throws { try Command.run(["ls", "/proc/\(self.process)/fd"]).split(separator: "\n").count }
  }

  private static func peak(of process: pid_t) throws -> Int {
    let status = try Command.run(["cat", "/proc/\(process)/status"]).split(separator: "\n")
    let line = status.first { $0.hasPrefix("VmHWM:") }
    guard let peak = line.flatMap({ Int($0.drop { !$0.isNumber }.prefix { $0.isNumber }) }) else {
      throw CommandError("\(process) has no VmHWM")
    }
    return peak
  }
}
