import Glibc
import TestKit
import TestTraits
import Testing

/// connd's recordings, and their replay.
@Suite("Recording and replay", .needsNamespaces, .blocking)
struct RecordingScenario {
  /// Two uplinks, eth0 preferred, and a connd that records.
  private func laboratory() throws -> (lab: Laboratory, lines: RunningCommand, file: String) {
    let lab = try Laboratory()
    let file = "\(lab.directory.path)/it.recording"
    lab.options = ["--record", file]
    try lab.addLink("eth0", "192.0.2.7")
    try lab.addLink("eth1", "198.51.100.7")
    try lab.namespace.ip("route add default via 192.0.2.1 dev eth0 metric 100")
    try lab.namespace.ip("route add default via 198.51.100.1 dev eth1 metric 600")
    try lab.start()
    let lines = try RunningCommand([
      Programs.connctl, "--socket", lab.socket, "watch", "--json",
    ])
    try lines.line { $0.contains("\"snapshot\"") }
    return (lab, lines, file)
  }

  /// Stops connd, and compares the printed lines with the replay.
  ///
  /// - Returns: The printed lines.
  @discardableResult
  private func check(
    _ lab: Laboratory, _ lines: RunningCommand, _ file: String,
    as user: ([String]) -> [String] = { $0 }
  ) throws -> [String] {
    // The answer comes after everything that the last change invalidates.
    _ = try lab.connctl("path", "192.0.2.1")
    let last = "\"generation\": \(try lab.status().generation),"
    var printed: [String] = []
    try lines.line { line in
      printed.append(line)
      return line.contains(last)
    }
    #expect(try lab.connd?.terminate() == 0)
    try lines.terminate()
    while let line = try lines.nextLine() { printed.append(line) }
    let replay = try Command.outcome(of: user([Programs.connd, "--replay", file]))
    #expect(replay.status == 0)
    #expect(replay.standardError == "")
    let expected = replay.output.split(separator: "\n").map(String.init)
    #expect(expected.first?.hasPrefix("{\"event\": \"snapshot\"") == true)
    #expect(expected.dropFirst().starts(with: printed), "\(expected) != \(printed)")
    #expect(printed.count > 1)
    // A grace period may end while connd stops. Clients learn that from the next connd.
    let late = expected.dropFirst(1 + printed.count)
    #expect(late.allSatisfy { $0.contains("graceEnded") }, "\(late)")
    return printed
  }

  @Test("a replay repeats the events byte for byte, whatever clients ask in between")
  func replay() throws {
    let (lab, lines, file) = try self.laboratory()
    let flow = try GuardedFlow(lab, to: "192.0.2.1")
    _ = try lab.connctl("explain", "203.0.113.9")
    _ = try lab.connctl("links")
    #expect(try lab.connctl("connections").status == 0)
    try lab.outside.ip("link set eth0 down")
    #expect(try lab.event().status.ipv4.reason == "noCarrier")
    #expect(try lab.connctl("connections").status == 0)
    try flow.expectDestroyed("interfaceLost")
    try lab.outside.ip("link set eth0 up")
    #expect(try lab.event().status.ipv4.status == "satisfied")
    let another = try GuardedFlow(lab, to: "198.51.100.1")
    try lab.namespace.ip("address add 192.0.2.8/24 dev eth0")
    try lab.namespace.ip("route del default dev eth0")
    #expect(try lab.event().status.interface == "eth1")
    _ = try lab.connctl("path", "203.0.113.9")
    try lab.configure("links: [{match: eth1, medium: cellular}]")
    lab.connd?.signal(SIGHUP)
    #expect(try lab.event().status.medium == "cellular")
    try lab.namespace.ip("route add default via 192.0.2.1 dev eth0 metric 100")
    #expect(try lab.event().status.interface == "eth0")
    try another.expectAlive(in: lab, on: "eth1")
    try self.check(lab, lines, file)
  }

  @Test("a replay includes users' overrides, from before and during the recording")
  func costs() throws {
    let (lab, lines, file) = try self.laboratory()
    #expect(try lab.connctl("constrain", "eth0", "on").status == 0)
    #expect(try lab.event().status.constrained)
    #expect(try lab.connctl("networks").status == 0)
    #expect(try lab.connctl("expensive", "eth1", "--until", "boot", "on").status == 0)
    try lab.namespace.ip("route del default dev eth0")
    #expect(try lab.event().status.expensive)
    #expect(try lab.connctl("forget", "eth1").status == 0)
    #expect(try !lab.event().status.expensive)
    try self.check(lab, lines, file)

    // The next connd begins with the stored overrides.
    try lab.start()
    let more = try RunningCommand([
      Programs.connctl, "--socket", lab.socket, "watch", "--json",
    ])
    try more.line { $0.contains("\"snapshot\"") }
    try lab.namespace.ip("route add default via 192.0.2.1 dev eth0 metric 100")
    #expect(try lab.event().status.constrained)
    #expect(try lab.connctl("constrain", "eth0", "off").status == 0)
    #expect(try !lab.event().status.constrained)
    // The start publishes nothing, because the first connd left the same state.
    #expect(try self.check(lab, more, file).last?.contains("constrainedSet") == true)
  }

  @Test("I7 a replay repeats what was found after messages were lost")
  func overrun() throws {
    let (lab, lines, file) = try self.laboratory()
    let connd = try #require(lab.connd)
    try lab.whileStopped {
      try lab.namespace.ipBatch(
        (0..<3000).map { "address add 10.\(64 + $0 / 250).\($0 % 250).1/32 dev eth1" })
      try lab.namespace.ip("route del default dev eth0")
    }
    #expect(try lab.event().status.interface == "eth1")
    #expect(connd.overruns > 0)
    try self.check(lab, lines, file)
  }

  @Test(
    "a recording cut off anywhere replays up to there, and says that it ends early"
  )
  func cutOff() throws {
    let (lab, lines, file) = try self.laboratory()
    try lab.namespace.ip("route del default dev eth0")
    #expect(try lab.event().status.interface == "eth1")
    try lab.outside.ip("link set eth1 down")
    #expect(try lab.event().status.ipv4.reason == "noCarrier")
    try self.check(lab, lines, file)
    let whole = try Command.outcome(of: [Programs.connd, "--replay", file]).output
    let size = try #require(Int(try Command.run(["stat", "-c", "%s", file]).prefix { $0 != "\n" }))
    var early = 0
    for part in 1...20 {
      try Command.run(["sh", "-c", "head -c \(size * part / 21) \(file) >\(file).cut"])
      let cut = try Command.outcome(of: [Programs.connd, "--replay", "\(file).cut"])
      guard cut.status == 0 else {
        #expect(cut.standardError.contains("damaged header"))
        continue
      }
      #expect(whole.hasPrefix(cut.output))
      if cut.standardError.contains("ends early") { early += 1 }
    }
    // A cut may happen to fall between two turns.
    #expect(early >= 15)
  }

  @Test("a later run's replay repeats what subscribers of the run before were sent")
  func restored() throws {
    let (lab, lines, file) = try self.laboratory()
    // After a kill, subscribers would get a gap (D5).
    #expect(try lab.connd?.terminate() == 0)
    try lab.namespace.ip("route del default dev eth0")
    try lab.startConnd()
    #expect(try lab.event().status.interface == "eth1")
    try lab.namespace.ip("route add default via 192.0.2.1 dev eth0 metric 100")
    #expect(try lab.event().status.interface == "eth0")
    try self.check(lab, lines, file)
  }

  @Test(
    "an unprivileged user can replay another user's recording",
    .enabled(if: Users.areMany, "only one user exists here"))
  func unprivileged() throws {
    let (lab, lines, file) = try self.laboratory()
    try lab.namespace.ip("route del default dev eth0")
    #expect(try lab.event().status.interface == "eth1")
    lab.directory.open()
    try Command.run(["chmod", "644", file])
    try self.check(lab, lines, file, as: Programs.asNobody)
  }

  @Test(
    "an unwritable recording prevents connd's start, and an invalid recording is an error")
  func refusals() throws {
    let lab = try Laboratory()
    lab.options = ["--record", "\(lab.directory.path)/no/such/directory"]
    let connd = try lab.spawnConnd()
    #expect(try connd.wait() == 1)
    #expect(
      connd.standardError.contains("cannot be written as a recording: No such file or directory"))
    let file = try lab.directory.write("connd recording 2\nsomething else", to: "broken")
    let replay = try Command.outcome(of: [Programs.connd, "--replay", file])
    #expect(replay.status == 1)
    #expect(replay.standardError.contains("has a damaged header at offset 18"))
    #expect(
      try Command.outcome(of: [Programs.connd, "--replay", file, "--record", "x"]).status == 64)
  }
}
