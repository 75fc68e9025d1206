import Glibc
import TestKit
import TestTraits
import Testing

/// A machine without a real-time clock starts with a date years ago, until NTP sets the clock.
@Suite("The wall clock is set", .needsNamespaces, .blocking)
struct ClockScenario {
  private static let twoYears = 2 * 365 * 86_400

  private let lab: Laboratory
  private let prefix: [String]

  init() throws {
    self.lab = try Laboratory()
    let library = "\(self.lab.directory.path)/clock.so"
    try Command.run([
      "clang", "-shared", "-fPIC", "-Wall", "-o", library,
      Checkout.path("Tests/Programs/clock/clock.c"),
    ])
    self.prefix = [
      "env", "LD_PRELOAD=\(library)", "CLOCK_STEP=\(self.lab.directory.path)/step",
    ]
  }

  private func connctl(_ arguments: String...) throws -> String {
    try Command.run(
      self.prefix + [Programs.connctl, "--socket", self.lab.socket] + arguments)
  }

  /// The minutes from a moment until now, by the clock after the step: `2028-11-25T10:00`.
  private func minutes(from start: time_t, after step: Int) -> [String] {
    (start / 60...time(nil) / 60).map { self.minute(of: $0 * 60 + step) }
  }

  private func minute(of time: time_t) -> String {
    var time = time
    var date = tm()
    gmtime_r(&time, &date)
    var text = [CChar](repeating: 0, count: 32)
    strftime(&text, text.count, "%Y-%m-%dT%H:%M", &date)
    return String(decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
  }

  @Test("T4 ages follow the boot clock, and times follow the clock as set now", arguments: [1, -1])
  func step(sign: Int) throws {
    let start = time(nil)
    try self.lab.addLink("eth0", "192.0.2.2")
    try self.lab.namespace.ip("route add default via 192.0.2.1")
    try self.lab.directory.write("0", to: "step")
    try self.lab.start(prefix: self.prefix)
    _ = try self.connctl("constrain", "eth0", "--for", "1h", "on")
    #expect(try self.lab.event().status.constrained)

    let step = sign * Self.twoYears
    try self.lab.directory.write("\(step)", to: "step")
    // A change published afterwards gives the same times.
    try self.lab.namespace.ip("route replace default via 192.0.2.9")
    let event = try self.lab.event()
    let minutes = self.minutes(from: start, after: step)
    #expect(event.status.constrained, "an hour has not passed")
    #expect(minutes.contains(String(event.status.since.prefix(16))))
    for command in ["status", "stats"] {
      let told = try self.connctl(command, "--json")
      #expect(minutes.contains { told.contains("\"since\": \"\($0)") }, "\(told)")
    }
    for command in ["status", "top", "stats"] {
      let told = try self.connctl(command)
      #expect(!told.contains(" d)") && !told.contains("h)"), "\(told)")
    }
    let history = try self.connctl("history", "--json")
    for line in history.split(separator: "\n") {
      #expect(minutes.contains { line.contains("\"time\": \"\($0)") }, "\(line)")
    }
  }
}
