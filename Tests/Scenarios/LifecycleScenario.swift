import Glibc
import TestKit
import TestTraits
import Testing

@Suite("Lifecycle", .needsNamespaces, .blocking)
struct LifecycleScenario {
  private func online(configuration: String = "") throws -> Laboratory {
    let lab = try Laboratory(configuration: configuration)
    try lab.addLink("eth0", "192.0.2.2")
    try lab.namespace.ip("route add default via 192.0.2.1")
    return lab
  }

  @Test("D1 connd tells systemd that it is ready, its status, and that it stops")
  func notifications() throws {
    let lab = try self.online()
    let connd = try lab.startConnd()
    // Once connd is ready, the first call is answered.
    #expect(try lab.status().interface == "eth0")
    let watcher = try Watcher(socket: lab.socket)
    _ = try watcher.next()
    try lab.notifications.variable { $0 == "STATUS=other via eth0, 1 subscriber" }
    try lab.ip("route del default")
    try lab.notifications.variable { $0 == "STATUS=none, 1 subscriber" }
    try watcher.command.terminate()
    try lab.notifications.variable { $0 == "STATUS=none, 0 subscribers" }
    connd.signal(SIGTERM)
    try lab.notifications.variable { $0 == "STOPPING=1" }
    #expect(try connd.wait() == 0)
  }

  @Test(
    "D1 D4 clients come and go → systemd gets at most one status line a second, and the last one")
  func comingAndGoing() throws {
    let lab = try self.online()
    try lab.startConnd()
    let client = try lab.python("hostile.py", "comes_and_goes")
    let beginning = ContinuousClock.now
    var lines = 0
    // Read in between, because the socket holds only a few.
    while (try? client.nextLine(within: .zero)) != "gone" {
      _ = try? lab.notifications.variable(within: .milliseconds(50)) {
        lines += $0.hasPrefix("STATUS=") ? 1 : 0
        return false
      }
    }
    let seconds = Int(beginning.duration(to: .now).components.seconds)
    #expect(lines <= seconds + 2)
    try lab.ip("route del default")
    try lab.notifications.variable { $0 == "STATUS=none, 0 subscribers" }
  }

  @Test("D4 the lock file beside the socket is connd's own: no other user can hold it")
  func lockFile() throws {
    let lab = try self.online()
    try lab.startConnd()
    let files = try Command.run([
      "find", lab.directory.path, "-name", "connd.sock*", "-printf", "%f %m\n",
    ])
    #expect(Set(files.split(separator: "\n")) == ["connd.sock 666", "connd.sock.lock 600"])
  }

  @Test(
    "D4 connd's threads request short time slices, and it keeps its niceness")
  func slices() throws {
    let lab = try self.online()
    let process = "/proc/\(try lab.startConnd(prefix: ["nice", "-n", "5"]).processIdentifier)"
    let fields = try Command.run(["cat", "\(process)/stat"]).split(separator: ")").last
    #expect(fields?.split(separator: " ").dropFirst(16).first == "5")
    let threads = try Command.run(["ls", "\(process)/task"]).split(separator: "\n")
    #expect(threads.count > 1)
    for thread in threads {
      // Before Linux 6.12, all threads have the same slice.
      let slice = try self.slice("\(process)/task/\(thread)/sched")
      #expect(try slice <= self.slice("/proc/self/sched"))
    }
  }

  private func slice(_ file: String) throws -> Int {
    // A thread that has ended has none.
    let slice = try Command.run(["sh", "-c", "sed -n 's/^se.slice .*: *//p' \(file) || true"])
    return Int(slice.split(separator: "\n").first ?? "0") ?? 0
  }

  @Test(
    "SIGTERM and SIGINT end connd, even with a stopped subscriber",
    arguments: [SIGTERM, SIGINT])
  func signals(signal: CInt) throws {
    let lab = try self.online()
    try lab.start()
    let connd = try #require(lab.connd)
    let stopped = try #require(lab.watcher).command
    stopped.signal(SIGSTOP)
    try stopped.waitUntilStopped()
    defer { stopped.signal(SIGCONT) }
    let beginning = ContinuousClock.now
    connd.signal(signal)
    // The requirement is two seconds; the deadline only limits a hang.
    #expect(try connd.wait(within: .seconds(10)) == 0)
    print("ended by signal \(signal) after \(beginning.duration(to: .now))")
    #expect(access(lab.socket, F_OK) != 0, "the socket is removed")
  }

  @Test("SIGTERM with a thousand subscribers, some of them stopped → each reader learns of it")
  func manySubscribers() throws {
    let lab = try self.online()
    try lab.startConnd()
    let connd = try #require(lab.connd)
    let readers = try lab.python("hostile.py", "are_told_of_the_end")
    let sleepers = try lab.python("hostile.py", "are_stopped")
    for client in [readers, sleepers] { try client.line { $0 == "held" } }
    sleepers.signal(SIGSTOP)
    try sleepers.waitUntilStopped()
    defer { sleepers.signal(SIGCONT) }
    let beginning = ContinuousClock.now
    // Otherwise the socket is full, and connd waits until it can send its status to systemd.
    lab.notifications.discard()
    connd.signal(SIGTERM)
    #expect(try connd.wait(within: .seconds(20)) == 0)
    print("ended under a thousand subscribers after \(beginning.duration(to: .now))")
    try readers.line { $0 == "told 900" }
  }

  @Test("D2 SIGTERM while users have hundreds of calls → connd exits, and each call has a status")
  func manyCalls() throws {
    let lab = try self.online()
    // Each listing of the links takes long.
    try lab.namespace.ipBatch((1...500).map { "link add veth\($0) type veth peer name peer\($0)" })
    let connd = try lab.startConnd()
    var clients = [try lab.python("hostile.py", "has_calls_when_connd_stops")]
    if Users.areMany {
      lab.directory.open()
      clients.append(try lab.python("hostile.py", "has_calls_as_another_person_when_connd_stops"))
    }
    for client in clients { try client.line { $0 == "held" } }
    lab.notifications.discard()
    connd.signal(SIGTERM)
    #expect(try connd.wait(within: .seconds(20)) == 0)
    let ends = try clients.map { try $0.line { $0.hasPrefix("answered") } }
    for end in ends { #expect(end.hasSuffix("other []"), "\(end)") }
  }

  @Test("SIGHUP reloads the configuration; an invalid one changes nothing")
  func reload() throws {
    let lab = try self.online(configuration: "links: [{match: eth0, medium: wired}]")
    #expect(try lab.start().category == "wired")
    let connd = try #require(lab.connd)

    try lab.configure("links: [{match: eth0, medium: cellular}]")
    connd.signal(SIGHUP)
    let event = try lab.event()
    #expect(event.event == "transition")
    #expect(event.from == "wired")
    #expect(event.to == "cellular")
    #expect(event.cause?.trigger == "configuration")
    // The flow's way is unchanged (I0).
    let told = try #require(lab.watcher).nextInvalidation()
    #expect("\(told.severity) \(told.reason)" == "advise categoryChanged")

    try lab.configure("links: [{match: eth0, medium: telepathy}]")
    connd.signal(SIGHUP)
    try lab.notifications.variable {
      $0.contains("configuration not reloaded") && $0.contains("telepathy")
    }
    #expect(try lab.status().category == "cellular")

    // The last valid configuration also applies afterwards.
    try lab.ip("route replace default via 192.0.2.254")
    #expect(try lab.event().status.category == "cellular")

    try lab.configure("")
    connd.signal(SIGHUP)
    #expect(try lab.event().to == "other")
    try lab.notifications.variable { $0 == "STATUS=other via eth0, 1 subscriber" }
  }

  @Test(
    "A second connd on the same socket refuses to start, names the first, and does not disturb it")
  func second() throws {
    let lab = try self.online()
    try lab.start()
    let first = try #require(lab.connd)
    let second = try lab.spawnConnd()
    #expect(try second.wait() == 1)
    #expect(second.standardError.contains("process \(first.processIdentifier)"))
    #expect(second.standardError.contains(lab.socket))
    #expect(try lab.status().category == "other")
    try lab.ip("route del default")
    #expect(try lab.event().to == "none")
    try first.terminate()
    try lab.startConnd()
  }

  @Test(
    "D5 connd is killed and leaves its socket → the next one replaces it, and generations continue")
  func killed() throws {
    let lab = try self.online()
    try lab.start()
    try lab.ip("route del default")
    let last = try lab.event()
    let connd = try #require(lab.connd)
    connd.signal(SIGKILL)
    #expect(try connd.wait() == 128 + Int(SIGKILL))
    #expect(access(lab.socket, F_OK) == 0)
    #expect(try lab.connctl("status").status == 69)

    try lab.startConnd()
    // Nothing has changed, but the killed connd may have published more than it has stored.
    let gap = try lab.event()
    #expect(gap.event == "gap" && gap.generation > last.generation)
    #expect(try lab.status().generation == gap.generation)
    try lab.ip("route add default via 192.0.2.1")
    let gain = try lab.event()
    #expect(gain.to == "other")
  }

  @Test("D5 a connd that is killed again and again never reuses a generation")
  func killedAgainAndAgain() throws {
    let lab = try self.online()
    // The watcher checks that generations grow by one from each event to the next.
    try lab.start()
    for number in 1...10 {
      let gateway = "192.0.2.\(100 + number)"
      try lab.namespace.ip("route replace default via \(gateway)")
      // Before, during or after the publication.
      let connd = try #require(lab.connd)
      connd.signal(SIGKILL)
      try connd.wait()
      try lab.startConnd()
      try lab.events { $0.status.ipv4.gateway == gateway }
    }
    #expect(try #require(lab.watcher).command.standardError.contains("connd is back"))
  }

  @Test("D5 I7 a watch survives a restart, reports it, and gets the missed events")
  func restart() throws {
    let lab = try self.online()
    let before = try lab.start()
    let watcher = try #require(lab.watcher)
    #expect(try #require(lab.connd).terminate() == 0)
    try lab.namespace.ip("route del default")
    try lab.startConnd()
    let missed = try lab.event()
    #expect(missed.event == "transition")
    #expect(missed.generation == before.generation + 1)
    #expect(missed.to == "none")
    #expect(missed.cause?.trigger == "start")
    #expect(missed.cause?.learntLate == true)
    #expect(watcher.command.standardError.contains("connd went away"))
    #expect(
      watcher.command.standardError.contains(
        "connd is back; continuing after generation \(before.generation)"))

    // A subscriber that knows that generation resumes from there; another generation is unknown to
    // connd.
    let resumed = try Watcher(socket: lab.socket, arguments: ["--since", "\(before.generation)"])
    #expect(try resumed.next() == missed)
    let lost = try Watcher(socket: lab.socket, arguments: ["--since", "4242"])
    #expect(try lost.next().event == "gap")
  }

  @Test(
    "D1 systemd passes several sockets → connd, which serves one, says so and does not start"
  )
  func severalListeners() throws {
    let lab = try Laboratory()
    let paths = ["first", "second"].map { "\(lab.directory.path)/\($0).sock" }
    let connd = try lab.spawnConnd(prefix: [
      "python3", Checkout.path("Tests/Programs/python/passed_listeners.py"),
      paths.joined(separator: ","),
    ])
    #expect(try connd.wait(within: .seconds(20)) == 1)
    #expect(
      connd.standardError.contains("systemd passed 2 listening sockets, but connd serves only one"))
    try lab.startConnd(prefix: [
      "python3", Checkout.path("Tests/Programs/python/passed_listeners.py"),
      "\(lab.directory.path)/only.sock",
    ])
  }

  @Test("I7 a change that is undone while connd is away is not reported")
  func unchanged() throws {
    let lab = try self.online()
    let before = try lab.start()
    try #require(lab.connd).terminate()
    try lab.namespace.ip("route del default")
    try lab.namespace.ip("route add default via 192.0.2.1")
    try lab.startConnd()
    #expect(try lab.status().generation == before.generation)
    try lab.ip("route replace default via 192.0.2.254")
    #expect(try lab.event().generation == before.generation + 1)
  }

  @Test("connd's log begins with its version, and says where it listens")
  func listens() throws {
    let lab = try self.online()
    let connd = try lab.startConnd()
    let version = try Command.run([Programs.connd, "--version"])
    #expect(
      connd.standardError.hasPrefix("connd: info: \(version.prefix { $0 != "\n" }) starts\n"),
      "\(connd.standardError)")
    // It writes the line before it is ready.
    #expect(connd.standardError.contains("listens on \(lab.socket)"))
  }

  @Test(
    "A directory that is not writable is named, and the exit status is 77",
    .enabled(if: Users.areMany, "only one user exists here"))
  func unwritable() throws {
    let lab = try Laboratory()
    lab.directory.open()
    let connd = try lab.spawnConnd(prefix: Programs.asNobody([]))
    #expect(try connd.wait() == 77)
    #expect(connd.standardError.contains(lab.socket))
    #expect(connd.standardError.contains("--socket"))
  }

  @Test("A file that is not a socket is left alone")
  func notASocket() throws {
    let lab = try Laboratory()
    try lab.directory.write("precious", to: "connd.sock")
    let connd = try lab.spawnConnd()
    #expect(try connd.wait() == 1)
    #expect(connd.standardError.contains("not a socket"))
    #expect(try Command.run(["cat", lab.socket]) == "precious")
  }

  @Test("An invalid configuration at the start → an error with its place in the file")
  func wrongConfiguration() throws {
    let lab = try Laboratory(configuration: "prefer: ipv4\nlinks:\n  - {match: eth0, medium: 7}\n")
    let connd = try lab.spawnConnd()
    #expect(try connd.wait() == 78)
    #expect(connd.standardError.contains("connd.yaml:3: links[0].medium"))
  }

  @Test("K8 without netlink the category is unknown, which counts as online")
  func withoutNetlink() throws {
    let lab = try self.online()
    let connd = try lab.startConnd(
      prefix: ["python3", Checkout.path("Tests/Programs/python/without_netlink.py")])
    let status = try lab.status()
    #expect(status.category == "unknown")
    #expect(status.threeWay == "unknown")
    #expect(status.ipv4.status == "unknown")
    #expect(status.ipv4.reason == "kernelUnavailable")
    #expect(status.interface == nil)
    #expect(try lab.connctl("is", "online").status == 0)
    let path: PathReport = try decode(try lab.connctl("path", "192.0.2.1", "--json").output)
    #expect(path.status == "unknown")
    // Any number of flows can still be guarded, and is judged when the kernel can be asked.
    try lab.python("guard.py", "blind").expectSuccess()
    #expect(connd.standardError.contains("assume that they are online"))
    #expect(try connd.terminate() == 0)

    // The earlier answers do not get in the way when the kernel can be asked.
    try lab.startConnd()
    #expect(try lab.status().category == "other")
  }
}
