import Glibc
import TestKit
import TestTraits
import Testing

/// connd is wrong, or does not answer.
extension ClientsScenario {
  @Test(
    "I11 connd refutes three new connections in a row → the next ones are left alone",
    arguments: PlainClient.inProcess)
  func refuted(_ client: PlainClient) throws {
    let lab = try Uplinks.laboratory(["eth0"])
    let server = try lab.startEcho()
    let refuter = try Python.start(
      "Tests/Programs/python/refuter.py", [lab.socket], in: lab.namespace)
    try refuter.line { $0 == "ready" }
    let program = try GuardedProgram(client, lab)
    for number in 1...3 {
      try program.send("connect \(number) \(Uplinks.server) \(GuardedProgram.port)")
      try program.expectReset(number)
    }
    try program.next("suspended 3")
    for number in 4...5 {
      try program.send("connect \(number) \(Uplinks.server) \(GuardedProgram.port)")
      try program.next("open \(number)")
      if let word = client.unguardedWord { try program.next("\(word) \(number)") }
      try program.expectEcho(number)
    }
    // Another destination has a breaker of its own. Requests arrive in order.
    try program.send("connect 6 10.0.0.1 \(GuardedProgram.port)")
    try program.expectReset(6)
    try program.expectEcho(5)
    refuter.signal(SIGKILL)
    // An attempt to connect, which Go guards as well, has no address yet.
    let flows = try refuter.remainingOutput().split(separator: "\n")
    #expect(flows.count { $0.contains(#""local": "#) } == 4)
    withExtendedLifetime(server) {}
  }

  @Test(
    "I11 a program guards an older connection that is dead → it ends, and refutes nothing",
    arguments: PlainClient.withGuard)
  func older(_ client: PlainClient) throws {
    let (lab, server) = try self.laboratory()
    let program = try GuardedProgram(client, lab)
    for number in 1...4 {
      try program.send("open \(number) \(Uplinks.server) \(GuardedProgram.port)")
      try program.next("open \(number)")
      try program.expectEcho(number)
    }
    try lab.namespace.ip("address del 10.0.0.2/24 dev eth0")
    try lab.awaitEvaluation()
    for number in 1...4 {
      try program.send("guard \(number)")
      try program.expectReset(number)
      try program.next("destroy \(number)")
    }
    for word in ["suspended", "unguarded"] { program.expectNothing(word) }
    #expect(try lab.statistics().refutations == [:])
    withExtendedLifetime(server) {}
  }

  @Test(
    "I11 connd starts six seconds after a connection died that was made without it → refutes nothing",
    arguments: PlainClient.inProcess)
  func late(_ client: PlainClient) throws {
    let lab = try Uplinks.laboratory(["eth0", "wlan0"])
    let server = try lab.startEcho()
    let program = try GuardedProgram(client, lab)
    try program.send("connect 1 \(Uplinks.server) \(GuardedProgram.port)")
    try program.next("open 1")
    try program.expectEcho(1)
    try lab.namespace.ip("address del 10.0.0.2/24 dev eth0")
    // Until the connection is too old to show anything about connd.
    try Command.run(["sleep", "6"])
    try lab.startConnd()
    try program.expectReset(1)
    #expect(try lab.statistics().refutations == [:])
    withExtendedLifetime(server) {}
  }

  @Test("I11 connd was wrong, or too many are guarded → guard() in Python only reports it")
  func wrong() throws {
    let (lab, server) = try self.laboratory()
    let program = try lab.namespace.spawn(
      [
        "python3", "-B", Checkout.path("Tests/Programs/clients/wrong.py"), Uplinks.server,
        "\(GuardedProgram.port)",
      ],
      environment: [
        "CONND_SOCKET": lab.socket, "PYTHONPATH": Checkout.path("clients/python"),
      ])
    #expect(try program.nextLine() == "suspended")
    #expect(try program.nextLine() == "refused")
    #expect(try program.nextLine() == "[None, None, None, None, 300.0, 600.0, None]")
    try program.expectSuccess()
    withExtendedLifetime(server) {}
  }

  @Test(
    "C7 connd has stopped and does not answer → a program's query of the state fails in time",
    arguments: [PlainClient.c, .python, .node])
  func stopped(_ client: PlainClient) throws {
    let (lab, server) = try self.laboratory()
    let program = try GuardedProgram(client, lab)
    let connd = try #require(lab.connd)
    connd.signal(SIGSTOP)
    defer { connd.signal(SIGCONT) }
    try program.send("status 300")
    try program.next("absent")
    withExtendedLifetime(server) {}
  }
}
