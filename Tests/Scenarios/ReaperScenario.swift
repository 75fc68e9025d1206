import Glibc
import TestKit
import TestTraits
import Testing

/// `connctl run --guard` and `connctl reap`, with programs that know nothing of connd.
@Suite("Other programs", .needsNamespaces, .blocking)
struct ReaperScenario {
  /// A host with a preferred cable and Wi-Fi, connd, and a server outside.
  func laboratory(
    _ links: [String] = ["eth0", "wlan0"], configuration: String = ""
  ) throws -> (Laboratory, server: RunningCommand) {
    let lab = try Uplinks.laboratory(links, configuration: configuration)
    try lab.start()
    return (lab, try lab.startEcho())
  }

  static func program(_ words: [String], to address: String = Uplinks.server) -> [String] {
    [
      "python3", "-B", Checkout.path("Tests/Programs/python/unguarded.py"), address,
      "\(GuardedProgram.port)",
    ] + words
  }

  /// A program under `connctl run --guard`.
  func run(
    _ lab: Laboratory, _ words: String..., to address: String = Uplinks.server,
    options: [String] = []
  ) throws -> RunningCommand {
    try lab.namespace.spawn(
      [Programs.connctl, "--socket", lab.socket, "run", "--guard"] + options + ["--"]
        + Self.program(words, to: address))
  }

  func expect(
    _ line: String, _ program: RunningCommand, within deadline: Duration = .seconds(30)
  ) throws {
    do {
      try program.line(within: deadline) { $0.hasPrefix(line) }
    } catch {
      throw CommandError("no line “\(line)”: \(error); \(program.standardError)")
    }
  }

  func loseCable(_ lab: Laboratory) throws {
    try lab.unplug("eth0")
    try lab.namespace.ip("route del default dev eth0")
  }

  /// A word or number of the only connection to the server in connd's list.
  private func listed(_ field: String, _ lab: Laboratory) throws -> String {
    let line = try lab.connctl("connections", ":\(GuardedProgram.port)", "--json").output
    let value = line.split(separator: "\"\(field)\": ").dropFirst().first ?? ""
    return String(value.prefix { $0 != "," }.filter { $0 != "\"" })
  }

  /// `connctl guard` for the only connection to the server. It ends when connd destroys the flow.
  private func guarded(_ lab: Laboratory) throws -> RunningCommand {
    let command = try lab.namespace.spawn([
      Programs.connctl, "--socket", lab.socket, "guard",
      "\(Uplinks.server):\(GuardedProgram.port)", "--local",
      "10.0.0.2:\(try self.listed("localPort", lab))",
    ])
    _ = try command.nextLine()
    return command
  }

  @Test(
    "R2 R4 the cable is pulled and Wi-Fi takes over → a program's connection ends with an error",
    arguments: [
      [], ["idle"], ["idle", "poll"], ["orphan"],
    ])
  func pulled(_ words: [String]) throws {
    let (lab, server) = try self.laboratory()
    let program = try lab.namespace.spawn(
      [Programs.connctl, "--socket", lab.socket, "run", "--guard", "--"] + Self.program(words))
    try self.expect("open", program)
    try self.loseCable(lab)
    try self.expect("ended Connection reset by peer", program)
    if words.contains("orphan") {
      #expect(try program.terminate() == 128 + Int(SIGTERM))
    } else {
      #expect(try program.wait() == 3)
    }
    #expect(
      program.standardError.contains("on eth0; the other path is by wlan0; disconnected"))
    withExtendedLifetime(server) {}
  }

  @Test("R2 the cable is back within its hold → nothing ends")
  func flap() throws {
    let (lab, server) = try self.laboratory()
    let program = try self.run(lab)
    try self.expect("open", program)
    try lab.unplug("eth0")
    while try lab.event().status.ipv4.status == "satisfied" {}
    try lab.outside.ip("link set eth0 up")
    while try lab.event().status.ipv4.status != "satisfied" {}
    // The hold is over when another connection, which is lost now, has ended.
    let other = try self.run(lab, "idle")
    try self.expect("open", other)
    try self.expect("echoed", program)
    try self.loseCable(lab)
    try self.expect("ended", other)
    try self.expect("ended", program)
    #expect(try program.wait() == 3)
    #expect(program.standardError.split(separator: "\n").count == 1)
    withExtendedLifetime(server) {}
  }

  @Test("R1 a better path appears → nothing ends")
  func better() throws {
    let (lab, server) = try self.laboratory(configuration: "invalidations: {betterPath: destroy}\n")
    for link in ["all", "wlan0"] { try lab.outside.set("net/ipv4/conf/\(link)/rp_filter", "0") }
    // On the better path, an active connection would prove that it works.
    let program = try self.run(lab, "idle")
    try self.expect("open", program)
    let flow = try self.guarded(lab)
    try lab.namespace.ip("route add default via 10.1.0.1 dev wlan0 metric 50")
    // connd destroys the flow, which ends the command.
    #expect(try flow.wait() == 0)
    #expect(try self.listed("tcpState", lab) == "established")
    #expect(program.standardError == "")
    withExtendedLifetime(server) {}
  }

  @Test("R2 no other path exists → a connection ends when the patience is over")
  func patience() throws {
    let (lab, server) = try self.laboratory(["eth0"])
    let program = try self.run(lab, "idle", options: ["--patience", "3s"])
    try self.expect("open", program)
    try lab.unplug("eth0")
    try self.expect("ended Connection reset by peer", program)
    #expect(try program.wait() == 3)
    #expect(program.standardError.contains("no other path"))
    withExtendedLifetime(server) {}
  }

  @Test("R2 a program connects while its link is lost → the attempt ends, too")
  func connecting() throws {
    let (lab, server) = try self.laboratory()
    // The server gets nothing, so that the attempt is still going on when the cable is pulled.
    try lab.outside.nft(
      """
      table ip t {
        chain in { type filter hook prerouting priority raw; iifname eth0 drop; }
      }
      """)
    let program = try self.run(lab, "connect")
    try self.expect("connecting", program)
    try waitUntil("connd lists the attempt") {
      try lab.connctl("connections", "--json").output.contains("\"synSent\"")
    }
    try self.loseCable(lab)
    try self.expect("ended", program)
    #expect(try program.wait() == 3)
    #expect(program.standardError.contains("the other path is by wlan0"))
    withExtendedLifetime(server) {}
  }

  @Test("R5 accepted connections, and those of Multipath TCP, go on")
  func exempt() throws {
    let (lab, server) = try self.laboratory()
    let listener = try lab.namespace.spawn([
      Programs.connctl, "--socket", lab.socket, "run", "--guard", "--", "python3", "-B",
      Checkout.path("Tests/Programs/clients/echo.py"), "7001",
    ])
    try self.expect("ready", listener)
    let visitor = try lab.outside.spawn([
      "python3", "-B", Checkout.path("Tests/Programs/python/unguarded.py"), "10.0.0.2", "7001",
      "idle",
    ])
    try self.expect("open", visitor)
    let multipath = try self.run(lab, "multipath", "idle")
    try self.expect("open", multipath)
    let other = try self.run(lab, "idle")
    try self.expect("open", other)
    try self.loseCable(lab)
    try self.expect("ended", other)
    #expect(listener.standardError == "" && multipath.standardError == "")
    withExtendedLifetime((server, visitor)) {}
  }

  @Test("C7 connd is absent, or in another network namespace → the command runs unguarded")
  func unguarded() throws {
    let (lab, server) = try self.laboratory()
    let elsewhere = try lab.outside.spawn(
      [
        Programs.connctl, "--socket", lab.socket, "run", "--guard", "--", "sh", "-c",
        "sleep 1; exit 7",
      ])
    #expect(try elsewhere.wait() == 7)
    let absent = try Command.outcome(of: [
      Programs.connctl, "--socket", "\(lab.socket).none", "run", "--guard", "--", "sh", "-c",
      "exit 7",
    ])
    #expect(absent.status == 7)
    withExtendedLifetime(server) {}
  }

  @Test("D4 Guard has destroyed an active connection → the list says so in the same moment")
  func agreement() throws {
    let (lab, server) = try self.laboratory()
    let program = try lab.namespace.spawn(Self.program([]))
    try self.expect("echoed", program)
    let guarded = try self.guarded(lab)
    try lab.unplug("eth0")
    // The command ends when connd has destroyed the flow.
    #expect(try guarded.wait() == 0)
    #expect(try self.listed("state", lab) == "dead")
    withExtendedLifetime(server) {}
  }

  @Test("R4 R5 R6 the kernel ends the connections that the service's rules name, and no others")
  func reaped() throws {
    let (lab, server) = try self.laboratory()
    let programs = try (0..<2).map { _ in try lab.namespace.spawn(Self.program(["idle"])) }
    for program in programs { try self.expect("open", program) }
    func reap(_ options: String...) throws -> RunningCommand {
      try lab.namespace.spawn([Programs.connctl, "--socket", lab.socket, "reap"] + options)
    }
    let trial = try reap("--dry-run", "--port", "\(GuardedProgram.port)")
    try self.loseCable(lab)
    try waitUntil("the trial has reported") { trial.standardError.contains("would end") }
    let other = try reap("--port", "443")
    let service = try reap("--user", "root")
    for program in programs { try self.expect("ended Software caused connection abort", program) }
    try waitUntil("the service has reported both") {
      service.standardError.split(separator: "\n").count == 2
    }
    for command in [trial, other, service] { _ = try command.terminate() }
    #expect(other.standardError == "")
    let lines = service.standardError.split(separator: "\n")
    #expect(lines.count == 2 && lines.allSatisfy { $0.contains("destroyed") }, "\(lines)")
    withExtendedLifetime(server) {}
  }
}
