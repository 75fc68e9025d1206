import Glibc
import TestKit
import TestTraits
import Testing

/// A connd with a wrong view of the network. TCP is real.
@Suite("Breaker", .needsNamespaces, .blocking)
struct BreakerScenario {
  /// A flow as a client registers it.
  private struct Registration: Decodable {
    var remote: String
    var local: String?
    var localPort: Int?
    var remotePort: Int?
    /// The field `protocol` in the .proto.
    var number: Int?

    enum CodingKeys: String, CodingKey {
      case remote
      case local
      case localPort
      case remotePort
      case number = "protocol"
    }
  }

  @Test(
    "I11 connd refutes three new connections in a row → the fourth is left alone"
  )
  func refuted() throws {
    try self.expectBreaker(
      [], reason: "betterPath", cause: "registration diedBefore",
      path: "satisfied eth0 from 10.0.0.2 via 10.0.0.1 table 254")
  }

  @Test(
    "I11 connd sees no path for three connections in a row, and destroys each a second later → the fourth is left alone"
  )
  func doubted() throws {
    try self.expectBreaker(
      ["--doubt"], reason: "interfaceLost", cause: "timer graceEnded", path: "unsatisfied noRoute")
  }

  @Test(
    "I11 a connection drains for a better path after connd saw none for it → it ends when its link is lost"
  )
  func betterThanNone() throws {
    let bench = try CallBench(["eth0"], withConnd: false)
    let connd = try Python.start(
      "Tests/Programs/python/refuter.py", [bench.lab.socket, "--better"], in: bench.lab.namespace)
    try connd.line { $0 == "ready" }
    let server = try CallServer(bench.lab)
    let client = try bench.client(
      to: [CallBench.server], arguments: ["--on-invalidation", "drain"])
    let calls = try client.open(0)
    try client.expectEnded(calls, ["interfaceLost"], since: CallProbe.now, "the link is lost")
    try client.quit()
    try server.end()
    connd.signal(SIGKILL)
    try connd.wait()
  }

  /// Checks that a channel continues unguarded, and reports why.
  ///
  /// - Parameters:
  ///   - arguments: which error connd makes.
  ///   - reason: the reason that connd gives, with the cause and the path.
  private func expectBreaker(
    _ arguments: [String], reason: String, cause: String, path: String
  ) throws {
    let bench = try CallBench(["eth0"], withConnd: false)
    let connd = try Python.start(
      "Tests/Programs/python/refuter.py", [bench.lab.socket] + arguments, in: bench.lab.namespace)
    try connd.line { $0 == "ready" }
    let server = try CallServer(bench.lab)
    let client = try bench.client(to: [CallBench.server])
    let warning = "connd wrongly rejects new connections"
    if arguments.isEmpty {
      // A call may be answered before connd has refuted its connection.
      try waitUntil("the breaker opens") {
        try client.next("ended", of: try client.startQuick(0))
        return client.command.standardError.contains(warning)
      }
    } else {
      try self.loseConnections(client)
    }
    let calls = try client.open(0)
    try client.expectNextCall(0, from: "10.0.0.2", "refuted by connd")
    try client.expectUndisturbed(calls)
    #expect(try client.open(0).local == calls.local)

    let warnings = client.command.standardError.split(separator: "\n")
      .filter { $0.contains(warning) }
    #expect(warnings.count == 1)
    connd.signal(SIGKILL)
    let made = try connd.remainingOutput().split(separator: "\n")
      .map { try decode(String($0), as: Registration.self) }.filter { $0.local != nil }
    #expect(made.count == 3)
    #expect(Set(made.map(\.localPort)).count == 3)
    for flow in made {
      #expect(flow.local == "10.0.0.2")
      #expect(flow.remote == CallBench.server)
      #expect(flow.remotePort == CallServer.port)
      #expect(flow.number == 6)
    }
    for words in [
      "local=10.0.0.2", "local_port=\(made.last?.localPort ?? 0)", "remote=\(CallBench.server)",
      "remote_port=\(CallServer.port)", "reason=\(reason)", "cause=\(cause)", "path=\(path)",
    ] {
      #expect(warnings.first?.contains(words) == true, "\(words): \(warnings)")
    }
    try client.quit()
    try server.end()
    try connd.wait()
  }

  /// Makes calls until three connections have ended. Connections in doubt carry calls, or let them
  /// wait.
  private func loseConnections(
    _ client: CallProbe, sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    for _ in 1...3 {
      let end = try client.next("ended", of: try client.startQuick(0))
      #expect(end.code == "ok", "\(end)", sourceLocation: sourceLocation)
      try client.next("state") { $0.state == "transientFailure" }
    }
  }

  /// connd cannot know this: the kernel routes this type of service by a table of its own, and
  /// nothing else.
  @Test(
    "I11 a rule that no flow can name: connd destroys three connections wrongly → the fourth lives",
    arguments: ["socket", "handler"])
  func unnamedRule(guarding: String) throws {
    let lab = try Uplinks.laboratory(["eth0"], routes: [])
    try lab.namespace.ip("route add default via 10.0.0.1 dev eth0 table 100")
    try lab.namespace.ip("rule add tos 0x10 lookup 100")
    try lab.start()
    let server = try EchoServer(lab)
    let client = try server.client(to: Uplinks.server, ["--by", guarding, "--tos", "16"])
    for number in 1...3 {
      try client.connect(number)
      // One that spoke now would be spared (E1).
      try client.next("advise", of: "\(number)")
      try client.next("destroy", of: "\(number)")
      try client.next("ended", of: "\(number)")
    }
    try client.connect(4)
    if guarding == "socket" { try client.next("unguarded", of: "4") }
    try client.expectEcho(4)
    // By the time that connd gives up another connection, it would also have reported this one.
    let other = try server.client(to: Uplinks.server, ["--by", guarding, "--tos", "16"])
    try other.connect(1)
    try other.next("destroy", of: "1")
    try client.expectEcho(4)
    #expect(try lab.statistics().refutations == ["interfaceLost": 4])
    for client in [client, other] { try client.quit() }
    try server.end()
  }

  @Test(
    "I11 E1 a link left dormant by its driver still carries traffic → a connection that speaks lives"
  )
  func dormant() throws {
    let bench = try CallBench(["eth0"], withConnd: false)
    try bench.lab.namespace.ip("link set eth0 mode dormant")
    // When the carrier appears, the driver's missing report is requested.
    for (state, words) in [("down", "NO-CARRIER"), ("up", "state DORMANT")] {
      try bench.lab.outside.ip("link set eth0 \(state)")
      try waitUntil("the link shows \(words)") {
        try bench.lab.namespace.run("ip", "link", "show", "eth0").contains(words)
      }
    }
    try bench.lab.start()
    let server = try CallServer(bench.lab)
    let client = try bench.client(to: [CallBench.server])
    let calls = try client.open(0)
    // It speaks while connd waits for a path.
    func speak() throws {
      try client.send("write 0 \(calls.ids["bidi"] ?? "")")
      try client.next("message", of: calls.ids["bidi"])
    }
    try waitUntil("its socket has spared the connection") {
      try speak()
      return try bench.lab.statistics().spared == 1
    }
    try speak()
    #expect(try bench.lab.statistics().refutations == [:])
    try client.quit()
    try server.end()
  }
}
