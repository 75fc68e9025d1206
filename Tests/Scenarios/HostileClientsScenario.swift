import Glibc
import TestKit
import TestTraits
import Testing

/// Hostile or broken clients beside a well-behaved one. connd keeps running, its memory is bounded,
/// and the other client gets every event in order, which `Watcher` checks.
@Suite("Hostile clients", .needsNamespaces, .blocking)
struct HostileClientsScenario {
  private func online(configuration: String = "", prefix: [String] = []) throws -> Laboratory {
    let lab = try Laboratory(configuration: configuration)
    try lab.addLink("eth0", "192.0.2.2")
    try lab.namespace.ip("route add default via 192.0.2.1")
    try lab.start(prefix: prefix)
    return lab
  }

  /// - Returns: also the number of connd's descriptors before the client connected.
  private func online(
    besides client: String
  ) throws -> (Laboratory, RunningCommand, Vitals, descriptors: Int) {
    let lab = try self.online()
    let vitals = try Vitals(of: try #require(lab.connd).processIdentifier)
    let descriptors = try vitals.descriptors
    return (lab, try lab.python("hostile.py", client), vitals, descriptors)
  }

  @Test(
    "D4 a hostile client gets an error or is disconnected, and no other client notices",
    arguments: HostileClient.all)
  func attack(_ attack: HostileClient) throws {
    let (lab, client, vitals, descriptors) = try self.online(besides: attack.name)
    // During the attack, and afterwards.
    try lab.change(30)
    let fate = try client.nextLine(within: .seconds(180))
    try lab.change(15)

    #expect(attack.fates.contains(fate ?? ""), "\(fate ?? "nothing"); \(client.standardError)")
    let growth = try vitals.growth
    print("\(attack.name): \(fate ?? ""), at most \(growth) KiB more")
    #expect(growth < attack.bound * 1024, "bounded by \(attack.mechanism)")
    // A new client is served, and the attacker's resources are freed once it has gone.
    try waitUntil("a newcomer is served", within: .seconds(60)) {
      try lab.connctl("status").status == 0
    }
    client.signal(SIGKILL)
    try waitUntil("the client's descriptors are closed") { try vitals.descriptors <= descriptors }
  }

  @Test("D4 a stopped subscriber continues → it receives the end of the history")
  func stopped() throws {
    let lab = try self.online()
    let vitals = try Vitals(of: try #require(lab.connd).processIdentifier)
    let client = try lab.python("hostile.py", "is_stopped")
    try client.line { $0 == "held" }
    client.signal(SIGSTOP)
    try client.waitUntilStopped()
    try lab.change(600)
    print("is_stopped: at most \(try vitals.growth) KiB more")
    #expect(try vitals.growth < 8 * 1024, "bounded by a place in the history")
    client.signal(SIGCONT)
    let last = try lab.status().generation
    try client.line { $0 == "generation \(last)" }
  }

  @Test("a call sent before the client has read SETTINGS may be as large as any other")
  func early() throws {
    let lab = try self.online()
    let client = try lab.python("hostile.py", "asks_early")
    #expect(try client.nextLine() == "asked", "\(client.standardError)")
    try lab.change(5)
  }

  @Test(
    "a client that measures the bandwidth with pings, as gRPC does, is served for any length of time"
  )
  func bandwidth() throws {
    let lab = try self.online()
    let client = try lab.python("hostile.py", "measures_bandwidth")
    try client.line { $0 == "held" }
    try lab.change(600)
    #expect(try client.nextLine(within: .seconds(30)) == "served")
  }

  @Test(
    "a client shuts down reading → the next event disconnects it, and it costs nothing")
  func hearsNoMore() throws {
    let (lab, client, vitals, descriptors) = try self.online(besides: "hears_no_more")
    try client.line { $0 == "held" }
    #expect(try vitals.descriptors == descriptors + 1)
    try lab.change(5)
    try waitUntil("its descriptor is closed") { try vitals.descriptors <= descriptors }
  }

  @Test(
    "a client cancels each of a thousand calls after the answer → it keeps its connection")
  func cancelled() throws {
    let lab = try self.online()
    let client = try lab.python("hostile.py", "asks_and_cancels")
    #expect(try client.nextLine(within: .seconds(60)) == "served")
    try lab.change(5)
  }

  @Test("D4 connections that open and close without end do not keep others out")
  func connecting() throws {
    let lab = try self.online()
    let client = try lab.python("hostile.py", "connects_without_end")
    try client.line { $0 == "held" }
    for _ in 0..<20 {
      let outcome = try lab.connctl("status")
      #expect(outcome.status == 0, "\(outcome)")
    }
    try lab.change(5)
  }

  @Test("D4 the kernel buffers little of what a client does not read")
  func sendBuffer() throws {
    let (lab, client, _, _) = try self.online(besides: "never_reads")
    try client.line { $0 == "held" }
    try lab.change(5)
    let sockets = try Command.run(
      lab.namespace.wrapped(["ss", "-xHm", "state", "established", "src", "unix:\(lab.socket)"]))
    // As the kernel counts it, with the overhead of each buffer: 212,992 by default.
    let buffers = sockets.matches(of: #/skmem:\(.*?,tb(\d+)/#).compactMap { Int($0.1) }
    #expect(!buffers.isEmpty && buffers.allSatisfy { $0 <= 32_768 }, "\(sockets)")
  }

  @Test("connd's SETTINGS limit streams and header size, and disable priorities (RFC 9113, 5.3.2)")
  func settings() throws {
    let lab = try self.online()
    let client = try lab.python("hostile.py", "reads_settings")
    #expect(try client.nextLine() == "3=1024 6=16384 9=1")
  }

  @Test("calls that end long before their deadlines leave no timers and no memory behind")
  func deadlines() throws {
    let (lab, client, start, descriptors) = try self.online(besides: "have_long_deadlines")
    // The first round fills caches. Each round makes 200 connections and 5,000 calls.
    try client.line(within: .seconds(120)) { $0 == "gone" }
    try waitUntil("the descriptors are closed") { try start.descriptors <= descriptors }
    // A leak grows in every round. On a busy machine one round may need more buffers at once.
    let growths = try (0..<3).map { _ in
      let vitals = try Vitals(of: start.process)
      client.signal(SIGUSR1)
      try client.line(within: .seconds(120)) { $0 == "gone" }
      try waitUntil("the descriptors are closed") { try vitals.descriptors <= descriptors }
      return try vitals.growth
    }
    print("have_long_deadlines: \(growths) KiB more")
    #expect(growths.contains { $0 < 256 }, "5,000 calls that each leave 64 bytes exceed this")
    #expect(try lab.connctl("status").status == 0)
  }

  @Test("subscribers vanish without closing → nothing of them stays")
  func vanished() throws {
    let (lab, client, vitals, descriptors) = try self.online(besides: "vanishes")
    try client.line { $0 == "held" }
    #expect(try vitals.descriptors >= descriptors + 200)
    client.signal(SIGKILL)
    try waitUntil("the descriptors are closed") { try vitals.descriptors <= descriptors }
    try waitUntil("the watcher is the only subscriber") {
      try lab.connctl("stats", "--json").output.contains(#""subscribers": 1,"#)
    }
  }

  @Test(
    "more connections than the limit → refused with a reason, logged once; other users are served"
  )
  func connections() throws {
    let lab = try self.online(configuration: "limits: {connectionsPerUser: 20}")
    let connd = try #require(lab.connd)
    let client = try lab.python("hostile.py", "many_connections")
    // One is the watcher's.
    #expect(try client.nextLine() == "admitted 19")
    #expect(try client.nextLine() == "goaway 11")
    try lab.change(20)
    #expect(connd.standardError.count(of: "limits.connectionsPerUser") == 1)
    let reason = "has reached its limit of 20 connections (limits.connectionsPerUser)"
    // connctl waits only briefly for the reason.
    try waitUntil("connctl names the limit") {
      let refused = try lab.connctl("status")
      #expect(refused.status == 69, "\(refused)")
      return refused.standardError.contains(reason)
    }
    if Users.areMany {
      lab.directory.open()
      let other = Programs.asNobody([Programs.connctl, "--socket", lab.socket, "status"])
      #expect(try Command.outcome(of: other).status == 0)
    }
    client.signal(SIGKILL)
    try waitUntil("there is room again") { try lab.connctl("status").status == 0 }
  }

  @Test("more streams than the limit → RESOURCE_EXHAUSTED; a reload changes the limit")
  func streams() throws {
    let lab = try self.online(configuration: "limits: {streamsPerUser: 10}")
    let connd = try #require(lab.connd)
    let client = try lab.python("hostile.py", "many_streams")
    #expect(try client.nextLine() == "admitted 9")
    #expect(try client.nextLine() == "RESOURCE_EXHAUSTED")
    #expect(try client.nextLine() == "again", "\(client.standardError)")
    try lab.change(20)
    #expect(connd.standardError.count(of: "limits.streamsPerUser") == 1)
    try lab.configure("limits: {streamsPerUser: 100}")
    connd.signal(SIGHUP)
    try waitUntil("the configuration was read") {
      connd.standardError.contains("configuration reloaded")
    }
    #expect(try lab.connctl("status").status == 0)
  }

  @Test(
    "D4 a user lists 800 connections fifty times at once → all are answered in turn, beside another user"
  )
  func listings() throws {
    let lab = try self.online()
    let vitals = try Vitals(of: try #require(lab.connd).processIdentifier)
    let client = try lab.python("hostile.py", "lists_connections")
    try client.line { $0 == "asked" }
    if Users.areMany {
      lab.directory.open()
      let other = Programs.asNobody([Programs.connctl, "--socket", lab.socket, "connections"])
      let outcome = try Command.outcome(of: other)
      #expect(outcome.status == 0 && outcome.output.isEmpty, "\(outcome)")
    }
    try lab.change(5)
    #expect(
      try client.nextLine(within: .seconds(60)) == "answered 50 with 800 to 800",
      "\(client.standardError)")
    // Fifty more calls were cancelled, and nothing waits for them.
    #expect(try client.nextLine(within: .seconds(30)) == "then 800", "\(client.standardError)")
    let growth = try vitals.growth
    print("lists_connections: at most \(growth) KiB more")
    #expect(growth < 32 * 1024, "bounded by two listings of a user at a time")
  }

  @Test("few descriptors at the start → connd keeps some for itself and refuses clients")
  func fewDescriptors() throws {
    let lab = try self.online(prefix: ["sh", "-c", "ulimit -n 100; exec \"$@\"", "sh"])
    let connd = try #require(lab.connd)
    #expect(connd.standardError.contains("RLIMIT_NOFILE"))
    let client = try lab.python("hostile.py", "many_connections")
    // Half of them; nine each are reserved for services and for people, and one is the watcher's.
    #expect(try client.nextLine() == "admitted 31")
    #expect(try client.nextLine() == "goaway 11")
    try lab.change(20)
  }

  @Test(
    "descriptors run out → clients wait, connd does not spin, and continues when there are some"
  )
  func noDescriptors() throws {
    let lab = try self.online()
    let connd = try #require(lab.connd)
    let process = connd.processIdentifier
    let descriptors = try Vitals(of: process).descriptors
    try Command.run(["prlimit", "--pid", "\(process)", "--nofile=\(descriptors + 10):"])
    let beginning = ContinuousClock.now
    let client = try lab.python("hostile.py", "holds_connections")
    try client.line { $0 == "held" }
    try waitUntil("connd says so") { connd.standardError.contains("cannot accept connections") }
    try lab.change(100)
    // One attempt a second, and one log line for every ten.
    let tries = Int(beginning.duration(to: .now).components.seconds) + 1
    let count = connd.standardError.count(of: "cannot accept connections")
    #expect(count <= 1 + tries / 10)
    client.signal(SIGUSR1)
    try client.line { $0 == "gone" }
    try waitUntil("clients are served again") { try lab.connctl("status").status == 0 }
    #expect(connd.standardError.contains("connections are accepted again"))
    // One attempt a second; a busy loop would make thousands.
    let seconds = Int(beginning.duration(to: .now).components.seconds) + 1
    let stats = try lab.connctl("stats", "--json").output
    let attempts = stats.firstMatch(of: #/"descriptors": (\d+)/#).flatMap { Int($0.1) }
    print("noDescriptors: \(attempts ?? -1) attempts in \(seconds) s")
    #expect(try #require(attempts, "\(stats)") <= 5 * seconds)
  }

  @Test("a full disk → only the history is lost, logged once, and written again later")
  func fullDisk() throws {
    let mount = "mount -t tmpfs -o size=64k tmpfs \"$RUNTIME_DIRECTORY\" && exec \"$@\""
    let directory = try TemporaryDirectory()
    let state = directory.path
    let lab = try self.online(prefix: [
      "env", "RUNTIME_DIRECTORY=\(state)", "unshare", "--mount", "sh", "-c", mount, "sh",
    ])
    let connd = try #require(lab.connd)
    let inside = "/proc/\(connd.processIdentifier)/root\(state)"
    #expect(access("\(inside)/connd.history", F_OK) == 0)
    try Command.run(["sh", "-c", "dd if=/dev/zero of=\(inside)/fill bs=1k || true"])
    // The file has some room left in its last page; a slower connd merges more of these changes
    // into one.
    try waitUntil("connd says so") {
      try lab.change(20)
      return connd.standardError.contains("the history cannot be stored")
    }
    // connd tries again now and then.
    try waitUntil("the unfinished file is gone") {
      access("\(inside)/connd.history.new", F_OK) != 0
    }
    // A reader now learns that there was more.
    let header = ["head", "-n", "1", "\(inside)/connd.history"]
    try waitUntil("it is closed") { try Command.run(header).hasPrefix("connd history 4 -") }
    try Command.run(["rm", "\(inside)/fill"])
    try lab.change(1)
    try waitUntil("connd says so") { connd.standardError.contains("the history is stored again") }
    #expect(try Command.run(header).hasPrefix("connd history 4 +"))
    try lab.change(20)
    #expect(connd.standardError.count(of: "the history cannot be stored") == 1)
    #expect(connd.standardError.count(of: "the history is stored again") == 1)
  }
}

extension Laboratory {
  /// Changes the default route this many times, and reads the watcher's events up to the last.
  func change(_ count: Int) throws {
    let gateways = (0..<count).map { "192.0.2.\(10 + ($0 + self.changes) % 200)" }
    self.changes += count
    // Each with a process of its own, because connd reads only the end of a batch.
    for gateway in gateways { try self.namespace.ip("route replace default via \(gateway)") }
    let events = try self.events { $0.status.ipv4.gateway == gateways.last }
    #expect(events.allSatisfy { $0.event != "gap" })
  }
}

extension String {
  fileprivate func count(of part: String) -> Int { self.ranges(of: part).count }
}
