import Glibc
import TestKit
import TestTraits
import Testing

/// `connctl top` on a real terminal, with a real connd.
@Suite("Terminal pictures", .needsNamespaces, .blocking)
struct TopScenario {
  /// Wired by eth0, with wlan0 beside it, after two changes.
  private func online() throws -> Laboratory {
    let lab = try Laboratory(
      configuration: """
        links:
          - {match: eth0, medium: wired}
          - {match: wlan0, medium: wifi, expensive: true}
        """)
    try lab.addLink("eth0", "192.0.2.2")
    try lab.addLink("wlan0", "198.51.100.2")
    try lab.namespace.ip("route add default via 192.0.2.1")
    try lab.startConnd()
    return lab
  }

  private func terminal(
    _ lab: Laboratory, environment: [String: String] = [:]
  ) throws -> TerminalEmulator {
    try TerminalEmulator(
      columns: 80, rows: 24,
      environment: ["CONND_SOCKET": lab.socket].merging(environment) { $1 }
    ) { lab.namespace.wrapped($0) }
  }

  /// - Parameter heading: the beginning of the first row once the view is shown.
  private func top(
    _ lab: Laboratory, _ heading: String = "wired via eth0 (since"
  ) throws -> TerminalEmulator {
    let terminal = try self.terminal(lab)
    try terminal.run("\(Programs.connctl) top")
    try terminal.wait("the view stands") { $0.first?.hasPrefix(heading) == true }
    return terminal
  }

  /// Without what differs between runs and machines: times, ages, process IDs, name servers, and
  /// the number of empty rows.
  private func lasting(_ screen: [String]) -> [String] {
    screen.filter { !$0.hasPrefix("  dns ") }.reduce(into: [String]()) { rows, row in
      if !row.isEmpty || rows.last != "" { rows.append(row) }
    }.map {
      $0.replacing(#/\(since \d+ \w+\)/#, with: "(since …)")
        .replacing(#/\d\d:\d\d:\d\d/#, with: "hh:mm:ss")
        .replacing(#/connctl +\d+/#, with: "connctl  pid")
        .replacing(#/CLIENT +PID/#, with: "CLIENT   PID")
    }
  }

  /// Waits until the screen matches a picture in `Tests/Fixtures/pictures`.
  private func expect(
    _ terminal: TerminalEmulator, _ name: String,
    sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    let expected = try Picture.lines(name)
    do {
      try terminal.wait("the screen is \(name)") { self.lasting($0) == expected }
    } catch {
      let seen = try self.lasting(terminal.screen())
      let difference = try Picture.difference(seen, from: name)
      Issue.record("\(difference ?? "it came too late")", sourceLocation: sourceLocation)
    }
  }

  @Test("the screen at three sizes, one after the other in the same window")
  func sizes() throws {
    let lab = try self.online()
    try lab.namespace.ip("route replace default via 198.51.100.1 dev wlan0")
    let terminal = try self.top(lab, "wifi via wlan0, metered (since")
    try self.expect(terminal, "terminal-80x24")
    try terminal.resize(columns: 40, rows: 12)
    try self.expect(terminal, "terminal-40x12")
    try terminal.resize(columns: 132, rows: 50)
    try self.expect(terminal, "terminal-132x50")
  }

  @Test("a change appears immediately, with its cause, and the path is drawn with its gap")
  func change() throws {
    let lab = try self.online()
    let terminal = try self.top(lab)
    try lab.outside.ip("link set eth0 down")
    let screen = try terminal.wait("the loss stands there") {
      $0.first?.hasPrefix("none: eth0 has no carrier") == true
        && $0.contains { $0.contains("host ─ eth0 ╳ 192.0.2.1 ─ internet") }
        && $0.contains { $0.contains("eth0") && $0.contains("no carrier") && $0.contains("wired") }
    }
    #expect(screen.contains { $0.contains("wired → none") && $0.contains("carrier lost on eth0") })
  }

  @Test("bytes per second are the kernel's, even for a link beside the path")
  func rates() throws {
    let lab = try self.online()
    let terminal = try self.top(lab)
    try terminal.wait("nothing goes") {
      $0.contains { $0.hasPrefix("wlan0") && $0.contains("0 B/s") }
    }
    let traffic = try RunningCommand(
      lab.namespace.wrapped([
        "bash", "-c",
        "printf -v kilobyte %1000s; while sleep 0.02; do echo \"$kilobyte\" >/dev/udp/198.51.100.1/9; done",
      ]))
    defer { traffic.signal(SIGTERM) }
    try terminal.wait("bytes go") { $0.contains { $0.hasPrefix("wlan0") && $0.contains(" kB/s") } }
  }

  @Test("clients are listed with the destinations they follow")
  func clients() throws {
    let lab = try self.online()
    let terminal = try self.top(lab)
    let mailbox = try RunningCommand(
      lab.namespace.wrapped([
        Programs.connctl, "--socket", lab.socket, "guard", "203.0.113.9",
      ]))
    try terminal.wait("the guard stands there") {
      $0.contains { $0.contains("\(mailbox.processIdentifier)") && $0.contains("guards 1 flow") }
    }
  }

  @Test(
    "root sees all clients, other users only their own",
    .enabled(if: Users.areMany, "only one user exists here"))
  func users() throws {
    let lab = try self.online()
    lab.directory.open()
    let command = [Programs.connctl, "--socket", lab.socket]
    let watchers = [
      try RunningCommand(command + ["watch"]),
      try RunningCommand(Programs.asNobody(command + ["watch"])),
    ]
    for watcher in watchers { _ = try watcher.nextLine() }
    func processes(_ top: [String]) throws -> [Bool] {
      let rows = try Command.run(top).split(separator: "\n").map { $0.split(separator: " ") }
      return watchers.map { watcher in
        rows.contains {
          $0.count > 3 && $0[1] == "\(watcher.processIdentifier)" && $0[3] == "changes"
        }
      }
    }
    #expect(try processes(command + ["top"]) == [true, true])
    #expect(try processes(Programs.asNobody(command + ["top"])) == [false, true])
    // A client that has exited is no longer listed.
    try watchers[1].terminate()
    try waitUntil("who has gone is not told") {
      try processes(command + ["top"]) == [true, false]
    }
  }

  @Test("q restores the terminal; so do Ctrl-C, SIGTERM and SIGHUP")
  func ends() throws {
    let lab = try self.online()
    let terminal = try self.terminal(lab)
    try terminal.run("echo before")
    try terminal.wait("the shell has answered") { $0.contains("before") }
    var before = try terminal.screen()
    let file = "\(lab.directory.path)/process"
    for (end, status) in [("q", 0), ("C-c", 130), ("TERM", 143), ("HUP", 129)] {
      try terminal.run("(echo $BASHPID >\(file); exec \(Programs.connctl) top)")
      try terminal.wait("the view stands") { $0.first?.hasPrefix("wired via eth0") == true }
      #expect(try terminal.modes() == (cursor: false, alternate: true))
      let process = try Command.run(["cat", file]).filter { !$0.isNewline }
      switch end {
      case "q", "C-c": try terminal.press(end)
      default: try Command.run(["kill", "-\(end)", process])
      }
      let screen = try terminal.wait("the shell has the terminal") {
        $0.contains("before") && $0.last { !$0.isEmpty } == TerminalEmulator.prompt
      }
      #expect(screen.prefix { $0 != "before" } == before.prefix { $0 != "before" })
      #expect(try terminal.modes() == (cursor: true, alternate: false))
      try terminal.run("echo \"status $?\"; stty -a | grep -o ' .\\?icanon'")
      try terminal.wait("it has ended by \(end), and lines are read as before") {
        $0.contains("status \(status)") && $0.contains(" icanon")
      }
      try terminal.run("clear; echo before")
      before = try terminal.wait("it is as before") { $0.first == "before" }
    }
  }

  @Test(
    "Ctrl-Z stops connctl and restores the terminal; while stopped it does nothing, and fg resumes")
  func stops() throws {
    let lab = try self.online()
    let terminal = try self.top(lab)
    try terminal.press("C-z")
    try terminal.wait("the shell has the terminal") {
      $0.contains { $0.contains("Stopped") } && $0.last { !$0.isEmpty } == TerminalEmulator.prompt
    }
    #expect(try terminal.modes() == (cursor: true, alternate: false))
    try lab.outside.ip("link set eth0 down")
    // The kernel stops it in the background before it writes anything. The shell reports that at
    // its next prompt.
    try terminal.run("bg")
    try waitUntil("it is stopped again") {
      try terminal.run("jobs")
      return try terminal.screen().count { $0.contains("Stopped") } >= 2
    }
    #expect(try terminal.modes().alternate == false)
    try terminal.run("fg")
    try terminal.wait("it shows the present") {
      $0.first?.hasPrefix("none: eth0 has no carrier") == true
    }
    try terminal.press("q")
    try terminal.wait("it has ended") { $0.last { !$0.isEmpty } == TerminalEmulator.prompt }
  }

  @Test("an open view survives a restart of connd, and says that connd is away")
  func restart() throws {
    let lab = try self.online()
    let terminal = try self.top(lab)
    try #require(lab.connd).terminate()
    try terminal.wait("it says so") { $0.contains { $0.contains("connd went away") } }
    try lab.startConnd()
    try terminal.wait("it is back") { screen in
      screen[0].hasPrefix("wired via eth0") && !screen.contains { $0.contains("went away") }
    }
  }

  @Test("hostile link names do not affect the terminal")
  func hostileNames() throws {
    let lab = try self.online()
    for name in [
      "\u{1B}[2J\u{1B}[31m", "\u{1B}c", "a\u{202E}b", "日本日本", "e\u{301}\u{301}x", "שלום",
    ] {
      try Command.run([
        "ip", "-n", lab.namespace.name, "link", "add", name, "type", "veth", "peer", "name",
        "peer\(name.unicodeScalars.count)\(name.utf8.count)", "netns", lab.outside.name,
      ])
    }
    let terminal = try self.top(lab)
    let screen = try terminal.wait("all links stand there") {
      $0.contains { $0.hasPrefix("?[2J?[31m") } && $0.contains { $0.hasPrefix("????") }
    }
    #expect(screen.contains { $0.hasPrefix("a?b ") })
    #expect(screen.contains { $0.hasPrefix("?c ") })
    #expect(screen.contains { $0.hasPrefix("日本日本 ") })
    #expect(screen.contains { $0.hasPrefix("e\u{301}\u{301}x ") })
    // Each row's state is aligned with its heading, in terminal columns.
    let title = try #require(screen.first { $0.hasPrefix("LINK") })
    let column = title[..<(try #require(title.firstRange(of: "STATE")).lowerBound)].count
    for row in screen where row.contains("  down  ") || row.hasSuffix("  down") {
      let start = try #require(row.firstRange(of: "down")).lowerBound
      let width = row[..<start].reduce(0) { $0 + ("日本".contains($1) ? 2 : 1) }
      #expect(width == column, "\(row)")
    }
    #expect(try terminal.modes() == (cursor: false, alternate: true))
  }

  @Test("NO_COLOR, a locale without UTF-8 and a dumb terminal are respected")
  func poorTerminals() throws {
    let lab = try self.online()
    let plain = try self.terminal(lab, environment: ["NO_COLOR": "1", "LC_ALL": "C"])
    try plain.run("\(Programs.connctl) top")
    let screen = try plain.wait("the view stands") {
      $0.first?.hasPrefix("wired via eth0") == true && $0.contains { $0.hasPrefix("LINK") }
    }
    #expect(screen.joined().unicodeScalars.allSatisfy { $0.isASCII })
    #expect(screen.contains { $0.contains("host - eth0 - 192.0.2.1 - internet") })
    let colors = try plain.coloredScreen()
    #expect(!colors.contains("\u{1B}[3"))

    let colored = try self.top(lab)
    #expect(try colored.coloredScreen().contains("\u{1B}[32m"))

    let dumb = try self.terminal(lab, environment: ["TERM": "dumb"])
    try dumb.run("clear; \(Programs.connctl) top")
    try dumb.wait("it is shown once") {
      $0.contains { $0.hasPrefix("wired via eth0") } && $0.contains { $0.hasPrefix("LINK") }
        && $0.last { !$0.isEmpty } == TerminalEmulator.prompt
    }
    #expect(try dumb.modes() == (cursor: true, alternate: false))
  }

  @Test("history --graph draws a timeline on the terminal")
  func graph() throws {
    let lab = try self.online()
    try lab.outside.ip("link set eth0 down")
    let terminal = try self.terminal(lab)
    try terminal.run("clear; \(Programs.connctl) history --graph")
    let screen = try terminal.wait("the graph stands there") {
      $0.contains { $0.hasPrefix("none  ") } && $0.last { !$0.isEmpty } == TerminalEmulator.prompt
    }
    #expect(screen.contains { $0.hasPrefix("wired     ") && $0.contains("█") })
    #expect(screen.contains { $0.hasPrefix("losses    1") || $0.hasPrefix("losses") })
    #expect(screen.allSatisfy { $0.count <= 80 })
  }
}
