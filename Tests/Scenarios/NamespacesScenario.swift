import TestKit
import TestTraits
import Testing

/// A client in another network namespace than connd's, such as a container with connd's socket
/// mounted.
@Suite("Namespaces", .needsNamespaces, .blocking)
struct NamespacesScenario {
  private static let server = "203.0.113.1"

  /// connd with a link of its own, a server outside, and a namespace that reaches the server by a
  /// link unknown to connd.
  private func laboratory() throws -> (Laboratory, container: NetworkNamespace) {
    let lab = try Laboratory()
    try lab.addLink("eth0", "10.0.0.2")
    try lab.namespace.ip("route add default via 10.0.0.1 dev eth0")
    try lab.outside.ip("address add \(Self.server)/32 dev lo")
    let container = try NetworkNamespace()
    try container.ip("link add eth0 type veth peer name cont0 netns \(lab.outside.name)")
    try container.ip("address add 10.50.0.2/24 dev eth0")
    try container.ip("link set eth0 up")
    try container.ip("route add default via 10.50.0.1 dev eth0")
    try lab.outside.ip("address add 10.50.0.1/24 dev cont0")
    try lab.outside.ip("link set cont0 up")
    try lab.start()
    return (lab, container)
  }

  private func inode(of namespace: NetworkNamespace) throws -> String {
    try namespace.run("stat", "-Lc", "%i", "/proc/self/ns/net").filter(\.isNumber)
  }

  @Test(
    "C7 connctl guard in another namespace → one line that names both, exit status 69; the connection works"
  )
  func command() throws {
    let (lab, container) = try self.laboratory()
    let connection = try TCPConnection(from: container, to: lab.outside, at: Self.server)
    for arguments in [["--local", connection.local], []] {
      let outcome = try Command.outcome(
        of: container.wrapped(
          [Programs.connctl, "--socket", lab.socket, "guard", Self.server] + arguments))
      #expect(outcome.status == 69)
      #expect(outcome.output == "")
      let lines = outcome.standardError.split(separator: "\n")
      #expect(lines.count == 1)
      for namespace in [lab.namespace, container] {
        let inode = try self.inode(of: namespace)
        #expect(lines.first?.contains(inode) == true, "\(lines)")
      }
    }
    // Conditions and destinations are refused, too. The state is shown as connd's.
    func run(_ arguments: String...) throws -> Command.Outcome {
      try Command.outcome(
        of: container.wrapped([Programs.connctl, "--socket", lab.socket] + arguments))
    }
    #expect(try run("is", "online").status == 69)
    #expect(try run("path", Self.server).status == 69)
    for command in ["status", "links", "dns", "history", "networks", "why", "stats"] {
      let outcome = try run(command)
      #expect(outcome.standardError.contains("this is about connd's"), "\(command): \(outcome)")
    }
    for (arguments, remark) in [
      (["on", "transition", "--", "true"], "this is about connd's"),
      (["run", "--guard", "--", "sleep", "60"], "no connection is ended"),
    ] {
      let command = try container.spawn([Programs.connctl, "--socket", lab.socket] + arguments)
      try waitUntil("\(arguments) says so") { command.standardError.contains(remark) }
      try command.terminate()
    }
    #expect(connection.carries(within: .seconds(10)))
    // In connd's namespace it guards.
    let flow = try GuardedFlow(lab, to: Self.server)
    #expect(flow.path.interface == "eth0")
  }

  @Test(
    "C7 a program in another namespace → connd is absent for clients/python and clients/node",
    arguments: ["python", "node"])
  func absent(_ language: String) throws {
    let (lab, container) = try self.laboratory()
    let program: [String]
    if language == "python" {
      program = [
        "python3", "-Bc", "import connd; print(next(connd.watch())); connd.status(60)",
      ]
    } else {
      try TestSize.needsAll("Node.js")
      program = [
        "node", "--input-type=module", "--eval",
        """
        import { status, watch } from '\(Checkout.path("clients/node/guard.mjs"))'
        for await (const status of watch()) { console.log(status ?? 'None'); break }
        await status({ timeout: 60000 })
        """,
      ]
    }
    let outcome = try Command.outcome(
      of: container.wrapped(["/usr/bin/env"] + program),
      environment: [
        "CONND_SOCKET": lab.socket, "PYTHONPATH": Checkout.path("clients/python"),
      ])
    #expect(outcome.output == "None\n")
    #expect(outcome.status == 1)
    #expect(outcome.standardError.contains("connd speaks for another network namespace"))
  }

  @Test(
    "C7 the library's channel in another namespace is unguarded: changes of connd's network end no call"
  )
  func library() throws {
    let (lab, container) = try self.laboratory()
    let server = try CallServer(lab)
    let client = try CallProbe(
      lab, to: ["\(Self.server):\(CallServer.port)"], ["--backoff", "60"], in: container)
    let calls = try client.open(0)
    #expect(calls.local.hasPrefix("ipv4:10.50.0.2:"))
    let inode = try self.inode(of: lab.namespace)
    try waitUntil("the logger was told") { client.command.standardError.contains(inode) }
    try lab.namespace.ip("link set eth0 down")
    #expect(try lab.event().to == "none")
    try client.expectUndisturbed(calls)
    try client.expectNextCall(0, from: "10.50.0.2", "in another namespace")
    // The same after a restart of connd.
    try #require(lab.connd).terminate()
    try lab.startConnd()
    try client.expectNextCall(0, from: "10.50.0.2", "in another namespace, connd restarted")
    try client.quit()
    let mentions = client.command.standardError.split(separator: "\n").filter {
      $0.contains(inode)
    }
    #expect(mentions.count == 1, "\(mentions)")
    try server.end()
  }
}
