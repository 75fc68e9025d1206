import Glibc
import TestKit
import TestTraits
import Testing

/// The promise of docs/versioning.md: programs of this version work beside a connd of a later
/// version, and those of a later version beside this connd. The later version has one more of
/// everything that may be added (`Tests/Programs/python/newer.py`).
@Suite("Compatibility", .needsNamespaces, .blocking)
struct CompatibilityScenario {
  /// Commands that show the state. They print the same with a newer connd.
  private static let views: [[String]] = [
    ["status", "--json"], ["path", Uplinks.server, "--json"], ["path", "198.51.100.9"],
    ["explain", "--json"], ["explain", Uplinks.server, "--json"], ["links", "--json"], ["links"],
    ["history", "--json"], ["dns"], ["networks", "--json"], ["is", "online"], ["is", "metered"],
    ["is", "constrained"], ["wait", "online", "--timeout", "10s"], ["connections", "--json"],
    ["run", "--when", "online", "--", "true"], ["metered"],
  ]
  /// Further commands.
  private static let others: [[String]] = [
    ["status"], ["explain"], ["history"], ["history", "--graph"], ["stats"], ["stats", "--json"],
    ["metrics"], ["connections"], ["constrain", "eth0", "on"], ["metered", "eth0", "off"],
    ["forget", "eth0"], ["assist", "on"], ["assist", "auto"],
  ]

  /// A newer connd on the laboratory's usual socket.
  private struct Newer {
    let lab: Laboratory
    let server: RunningCommand

    /// - Parameter values: whether each enum has a value that its clients do not know.
    init(_ lab: Laboratory, values: Bool) throws {
      self.lab = lab
      guard rename(lab.socket, self.lab.ownSocket) == 0 else {
        throw CommandError("no socket: errno \(errno)")
      }
      self.server = try Python.start(
        "Tests/Programs/python/newer.py",
        ["serve", lab.ownSocket, lab.socket] + (values ? ["--values"] : []), in: lab.namespace)
      try self.server.line { $0 == "ready" }
    }

    /// Pulls a cable until connd has destroyed a flow, and plugs it in again.
    func pullAndReturn(_ link: String) throws {
      try self.lab.unplug(link)
      try self.server.line { $0 == "sent destroy" }
      try self.lab.outside.ip("link set \(link) up")
    }
  }

  private func newer(
    _ links: [String] = ["eth0", "wlan0"], values: Bool = false
  ) throws -> Newer {
    let lab = try Uplinks.laboratory(links)
    try lab.startConnd()
    return try Newer(lab, values: values)
  }

  // MARK: A newer connd

  @Test("a newer connd has more fields → connctl prints the same")
  func views() throws {
    let newer = try self.newer()
    for view in Self.views {
      let outcome = try newer.lab.connctl(view)
      let own = try newer.lab.connctl(view, socket: newer.lab.ownSocket)
      #expect(outcome.output == own.output, "\(view)")
      #expect(outcome.status == own.status, "\(view): \(outcome.standardError)")
    }
    for command in Self.others {
      let outcome = try newer.lab.connctl(command)
      #expect(outcome.status == 0, "\(command): \(outcome.standardError)")
    }
  }

  @Test("a newer connd answers with unknown values of all enums → connctl shows the nearest ones")
  func values() throws {
    let newer = try self.newer(values: true)
    for command in Self.views + Self.others {
      let outcome = try newer.lab.connctl(command)
      // Neither the cost nor the status of a path is known.
      let isFalse = command.first == "path" || command == ["is", "metered"]
      // `constrained` is a Boolean field.
      let expected: CInt = isFalse || command == ["is", "constrained"] ? 1 : 0
      #expect(outcome.status == expected, "\(command): \(outcome.standardError)")
    }
    let status = try newer.lab.status()
    #expect(status.category == "unknown" && status.interface == "eth0")
    #expect(try newer.lab.connctl("links", "--json").output.contains(#""state": "dormant""#))
  }

  @Test("a newer connd sends unknown kinds of events → connctl watch reports the known ones")
  func watch() throws {
    let newer = try self.newer(["eth0"])
    let watcher = try Watcher(socket: newer.lab.socket)
    #expect(try watcher.next().event == "snapshot")
    try newer.lab.unplug("eth0")
    #expect(try watcher.next().to == "none")
    try watcher.wideIs("destroy")
    try newer.lab.outside.ip("link set eth0 up")
    #expect(try watcher.next().to == "wired")
  }

  @Test("a newer connd has an unknown kind of change in its history → connctl report works")
  func report() throws {
    let newer = try self.newer()
    let report = "\(newer.lab.directory.path)/report"
    let connctl = try newer.lab.namespace.spawn(
      [Programs.connctl, "--socket", newer.lab.socket, "report", report])
    try connctl.expectSuccess()
    let answer = try Command.run(["sh", "-c", "head -c 2000 \(report)"])
    #expect(answer.contains("The recording began in the state of the running connd"))
  }

  @Test(
    "a newer connd serves a client in Python",
    arguments: [
      "status", "watch", "resume", "guard", "get_path", "watch_path", "explain", "links", "history",
      "costs",
    ])
  func python(_ check: String) throws {
    let lab = try self.singleLink()
    let newer = try Newer(lab, values: false)
    try lab.python("client.py", check).expectSuccess()
    withExtendedLifetime(newer) {}
  }

  @Test(
    "a newer connd destroys a flow → the Swift library ends its calls; with an unknown severity nothing ends",
    arguments: [false, true])
  func library(values: Bool) throws {
    let bench = try CallBench(["eth0", "wlan0"])
    let newer = try Newer(bench.lab, values: values)
    if values {
      // connd has forgotten the flow, so nothing says that its path is back.
      try bench.expectNoEnd(next: false) { try newer.pullAndReturn("eth0") }
    } else {
      try bench.expectEnd("a newer connd", "interfaceLost", next: "10.1.0.2") {
        try bench.lab.unplug("eth0")
        try bench.lab.namespace.ip("route del default dev eth0")
      }
    }
  }

  @Test(
    "a newer connd destroys a flow → a program's connection ends; with an unknown severity nothing ends",
    arguments: PlainClient.allCases, [false, true])
  func programs(_ client: PlainClient, values: Bool) throws {
    let newer = try self.newer(values: values)
    let server = try newer.lab.startEcho()
    let program = try GuardedProgram(client, newer.lab)
    try program.connect(1)
    try program.expectEcho(1)
    if values {
      try newer.pullAndReturn("eth0")
      let advice = try program.next("advise 1")
      // The Go package passes on the number.
      #expect(client == .go || advice == "advise 1 categoryChanged")
      try program.expectEcho(1)
    } else {
      try newer.lab.unplug("eth0")
      try program.expectReset(1)
    }
    withExtendedLifetime(server) {}
  }

  @Test(
    "a newer connd destroys a flow → the example in Python reconnects; with an unknown severity nothing ends",
    arguments: [false, true])
  func example(values: Bool) throws {
    let newer = try self.newer(values: values)
    let address = "\(Uplinks.server):50051"
    let server = try Python.start("Examples/python/server.py", [address], in: newer.lab.outside)
    try server.line { $0 == "listening" }
    let example = try Python.start(
      "Examples/python/guard.py", [address], in: newer.lab.namespace,
      environment: ["CONND_SOCKET": newer.lab.socket])
    var isServed = false
    // The first call may be answered before or after the registration.
    try example.line {
      isServed = isServed || $0.contains("the server sees ipv4:10.0.0.2:")
      return $0.hasSuffix("guarded, by eth0")
    }
    if !isServed { try example.line { $0.contains("the server sees ipv4:10.0.0.2:") } }
    if values {
      try newer.pullAndReturn("eth0")
      // The numbers of the unknown severity and reason.
      try example.line { $0.hasSuffix(" 4: 9") }
      #expect(throws: CommandError.self, "the call goes on") {
        try example.nextLine(within: .seconds(3))
      }
    } else {
      try newer.lab.unplug("eth0")
      try newer.lab.namespace.ip("route del default dev eth0")
      try example.line { $0.contains("DESTROY: ") }
      try example.line { $0.contains("the server sees ipv4:10.1.0.2:") }
    }
    server.signal(SIGKILL)
  }

  @Test("a newer connd serves grpc-go")
  func go() throws {
    let lab = try self.singleLink()
    let newer = try Newer(lab, values: false)
    let client = try lab.namespace.spawn(
      [try Programs.made(by: "Tests/Programs/go/build"), "guard"],
      environment: ["CONND_SOCKET": newer.lab.socket])
    try client.line { $0 == "guarded" }
    try lab.namespace.ip("address del 192.0.2.2/24 dev eth0")
    try client.expectSuccess()
    withExtendedLifetime(newer) {}
  }

  // MARK: A newer client

  @Test(
    "a newer client sets new fields and values, and calls new methods → connd says what it does not know",
    arguments: ["fields", "values", "kinds", "methods"])
  func client(_ check: String) throws {
    let lab = try self.singleLink()
    try lab.python("newer.py", check).expectSuccess()
  }

  private func singleLink() throws -> Laboratory {
    let lab = try Laboratory()
    try lab.addLink("eth0", "192.0.2.2")
    try lab.namespace.ip("route add default via 192.0.2.1")
    try lab.startConnd()
    return lab
  }
}

extension Laboratory {
  /// The socket of the laboratory's connd, if a newer connd listens on the usual one.
  fileprivate var ownSocket: String { "\(self.directory.path)/own.sock" }

  /// Runs connctl in the namespace to its end.
  fileprivate func connctl(
    _ arguments: [String], socket: String? = nil
  ) throws -> Command.Outcome {
    try Command.outcome(
      of: self.namespace.wrapped(
        [Programs.connctl, "--socket", socket ?? self.socket] + arguments))
  }
}
