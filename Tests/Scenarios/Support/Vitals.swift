import Glibc
import TestKit

/// A process's use of resources, as shown by /proc.
struct Vitals {
  let process: pid_t
  private let peak: Int

  /// Takes the present memory as the reference.
  init(of process: pid_t) throws {
    self.process = process
    // Resets the peak (proc_pid_clear_refs(5)).
    try Command.run(["sh", "-c", "echo 5 >/proc/\(process)/clear_refs"])
    self.peak = try Self.peak(of: process)
  }

  /// The growth of the peak resident memory, in KiB.
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
