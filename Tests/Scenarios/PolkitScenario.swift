import Glibc
import TestKit
import TestTraits
import Testing

/// polkit, if present, decides who may set overrides. A connd waiting for polkit still works.
@Suite(
  "polkit", .needsNamespaces, .blocking,
  .enabled(if: Users.areMany, "only one user exists here"))
struct PolkitScenario {
  private let bus: PolkitBus
  private let lab: Laboratory

  init() throws {
    self.bus = try PolkitBus()
    self.lab = try Laboratory(configuration: "links: [{match: eth0, medium: wired}]")
    try self.lab.addLink("eth0", "192.0.2.2")
    try self.lab.namespace.ip("route add default via 192.0.2.1")
    try self.lab.startConnd(prefix: self.bus.prefix)
    self.lab.directory.open()
  }

  private func asNobody(_ arguments: [String]) -> [String] {
    Programs.asNobody([Programs.connctl, "--socket", self.lab.socket] + arguments)
  }

  private func mark(_ choice: String) throws -> Command.Outcome {
    try Command.outcome(of: self.asNobody(["constrain", "eth0", choice]))
  }

  @Test(
    "polkit's decision holds, and the process it is asked about is the one the kernel names")
  func decides() throws {
    try self.bus.startService()
    let refused = try self.mark("on")
    #expect(refused.status == 77)
    #expect(refused.standardError.contains("org.connd.set-cost"), "\(refused)")
    let question = try self.bus.question()
    #expect(question.kind == "unix-process" && question.action == "org.connd.set-cost")
    #expect(question.subject.uid == 65534 && question.subject.pid > 1)
    #expect(question.types == ["pid": "UInt32", "start-time": "UInt64", "uid": "Int32"])
    #expect(question.flags == 0 && question.details == 0)
    #expect(question.path == "/org/freedesktop/PolicyKit1/Authority")

    // An action that needs an administrator's password is refused: connd never prompts.
    try self.bus.answer("challenge")
    #expect(try self.mark("on").status == 77)
    try self.bus.answer("yes")
    #expect(try self.mark("on").status == 0)
    #expect(try self.lab.status().constrained)
    #expect(try Command.outcome(of: self.asNobody(["forget", "eth0"])).status == 0)
    #expect(try !self.lab.status().constrained)

    // Root is not asked about.
    try self.bus.answer("no")
    for _ in 0..<3 { _ = try self.bus.question() }
    #expect(try self.lab.connctl("constrain", "eth0", "on").status == 0)
    #expect(try self.mark("off").status == 77)
    #expect(try self.bus.question().subject.uid == 65534)
  }

  private func expectRule() throws {
    let outcome = try self.mark("on")
    #expect(outcome.status == 77 && outcome.standardError.contains("group “connd”"), "\(outcome)")
  }

  private func expectUndecided(_ why: String) throws {
    let outcome = try self.mark("on")
    #expect(outcome.status == 69, "\(outcome)")
    for words in ["connd did not answer: polkit cannot decide", why] {
      #expect(outcome.standardError.contains(words), "\(outcome)")
    }
  }

  @Test("no polkit → the seat and the group decide; an invalid answer → refused")
  func falls() throws {
    try self.expectRule()
    try self.bus.startService()
    try self.bus.answer("unknown")
    try self.expectUndecided("Action org.connd.set-cost is not registered")
    try self.bus.answer("nonsense")
    try self.expectUndecided("invalid answer")
    try self.bus.answer("yes")
    #expect(try self.mark("on").status == 0)
    try self.bus.killService()
    try self.expectRule()
    // polkit is back, and says no.
    try self.bus.startService()
    #expect(try self.mark("on").standardError.contains("org.connd.set-cost"))
  }

  @Test("polkit is installed but does not start → refused, except for root")
  func broken() throws {
    try self.bus.install()
    try self.expectUndecided("org.connd.set-cost")
    #expect(try self.lab.connctl("constrain", "eth0", "on").status == 0)
  }

  /// A relay to connd over a connection whose opener has exited.
  private func relay(_ path: String) throws -> (relay: RunningCommand, opener: String) {
    let orphan = try RunningCommand(
      Programs.asNobody([
        "/usr/bin/python3", "-B", Checkout.path("Tests/Programs/python/orphan.py"), self.lab.socket,
        path,
      ]))
    let words = try orphan.nextLine()?.split(separator: " ") ?? []
    guard words.count == 2, words[0] == "ready" else { throw CommandError(orphan.standardError) }
    return (orphan, String(words[1]))
  }

  private func mark(by relay: String) throws -> Command.Outcome {
    try Command.outcome(
      of: Programs.asNobody([Programs.connctl, "--socket", relay, "constrain", "eth0", "on"]))
  }

  @Test("the process that connected has exited → its user is refused, whatever its groups")
  func orphan() throws {
    try self.bus.startService()
    try self.bus.answer("unknown")
    let directory = try TemporaryDirectory()
    #expect(chmod(directory.path, 0o777) == 0)
    let (orphan, _) = try self.relay("\(directory.path)/relay")
    let outcome = try self.mark(by: "\(directory.path)/relay")
    #expect(outcome.status == 77)
    #expect(outcome.standardError.contains("has exited"), "\(outcome)")
    withExtendedLifetime(orphan) {}
  }

  @Test("an authorized process reuses the pid of the one that connected → refused all the same")
  func reusedPID() throws {
    try self.bus.startService()
    try self.bus.answer("yes")
    let directory = try TemporaryDirectory()
    #expect(chmod(directory.path, 0o777) == 0)
    let (orphan, pid) = try self.relay("\(directory.path)/relay")
    let other = try RunningCommand([
      "/usr/bin/python3", "-B", Checkout.path("Tests/Programs/python/take_pid.py"), pid, "65534",
    ])
    #expect(try other.nextLine() == "taken", "\(other.standardError)")
    let outcome = try self.mark(by: "\(directory.path)/relay")
    #expect(outcome.status == 77 && outcome.standardError.contains("has exited"), "\(outcome)")
    // polkit was asked about that pid, and would have agreed.
    #expect(try self.bus.question().subject.pid == Int(pid))
    #expect(try !self.lab.status().constrained)
    withExtendedLifetime(orphan) {}
  }

  @Test("D7 polkit hangs → only its callers wait, for a bounded time, and are refused")
  func hangs() throws {
    try self.bus.startService()
    try self.bus.answer("mute")
    let waiting = try (0..<2).map { _ in
      try RunningCommand(self.asNobody(["constrain", "eth0", "on"]))
    }
    _ = try (self.bus.question(), self.bus.question())
    // In the meantime connd answers, obeys root, and receives the kernel's messages.
    #expect(try self.lab.connctl("constrain", "eth0", "on").status == 0)
    try self.lab.outside.ip("link set eth0 down")
    #expect(try self.lab.connctl("wait", "none", "--timeout", "30s").status == 0)
    for command in waiting {
      #expect(try command.wait() == 69)
      #expect(command.standardError.contains("polkit has not answered in time"))
    }
  }
}
