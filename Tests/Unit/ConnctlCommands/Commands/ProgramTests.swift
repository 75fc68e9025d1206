import Connectivity
import ConnectivityJSON
import ConnectivityMonitor
import ConnectivityProtocol
import GRPCCore
import LinuxSupport
import Synchronization
import Testing

@testable import ConnctlCommands

/// Runs connctl in this process against `stub`.
func connctl(
  _ arguments: String..., stub: StubConnd? = StubConnd(), screen: Screen = Screen()
) async throws -> (status: Int32, screen: Screen) {
  try await connctl(arguments, stub: stub, screen: screen)
}

func connctl(
  _ arguments: [String], stub: StubConnd? = StubConnd(), screen: Screen = Screen()
) async throws -> (status: Int32, screen: Screen) {
  try await withDirectory { directory in
    let socket = "\(directory)/connd.sock"
    let status =
      if let stub {
        try await stub.serving(socket) {
          await runConnctl(arguments + ["--socket", socket], on: screen.console)
        }
      } else {
        await runConnctl(arguments + ["--socket", socket], on: screen.console)
      }
    return (status, screen)
  }
}

@Suite("connctl")
struct ProgramTests {
  @Test("status, as text and as JSON")
  func status() async throws {
    let text = try await connctl("status")
    #expect(text.status == 0)
    #expect(text.screen.outputLines.first == "wifi via wlan0 (since 3 min)")
    let json = try await connctl("status", "--json")
    #expect(json.status == 0)
    #expect(json.screen.output == JSONShapeTests.status(17) + "\n")
  }

  @Test("without a command it shows the status, and on a terminal a hint for the next step")
  func bare() async throws {
    let bare = try await connctl()
    #expect(bare.status == 0)
    #expect(bare.screen.outputLines.first == "wifi via wlan0 (since 3 min)")
    #expect(bare.screen.errors == "")
    let json = try await connctl("--json")
    #expect(json.screen.output == JSONShapeTests.status(17) + "\n")
    try await withDirectory { directory in
      let socket = "\(directory)/connd.sock"
      try await StubConnd().serving(socket) {
        let terminal = Screen()
        let console = terminal.console(errorWidth: 200)
        #expect(await runConnctl(["--socket", socket], on: console) == 0)
        #expect(terminal.errors.contains("connctl watch") && terminal.errors.contains("explain"))
      }
    }
    let absent = try await connctl(stub: nil)
    #expect(absent.status == 69)
    #expect(absent.screen.errors.hasPrefix("connctl: connd is not running: there is no "))
  }

  @Test("--json and --socket may come before or after the command")
  func optionOrder() async throws {
    let json = try await connctl("--json", "status")
    #expect(json.screen.output == JSONShapeTests.status(17) + "\n")
    try await withDirectory { directory in
      let socket = "\(directory)/connd.sock"
      try await StubConnd().serving(socket) {
        let screen = Screen()
        #expect(
          await runConnctl(["--socket", socket, "status"], on: screen.console)
            == 0)
        #expect(screen.outputLines.first == "wifi via wlan0 (since 3 min)")
      }
    }
  }

  @Test("path succeeds if the path is satisfied")
  func path() async throws {
    let near = try await connctl("path", "192.0.2.80", "--json")
    #expect(near.status == 0)
    #expect(near.screen.output == "\(JSON.path(.wlan, to: "192.0.2.80"))\n")
    let far = try await connctl("path", "2001:db8::1")
    #expect(far.status == 1)
    #expect(far.screen.output == "2001:db8::1  unsatisfied: no route\n")
  }

  @Test("path to a link-local address with a link → the path by that link, from one guarded flow")
  func boundPath() async throws {
    let stub = StubConnd(onGuard: { requests, writer in
      for try await request in requests {
        #expect(request.add.remote == "fe80::77" && request.add.interface == "lo")
        try await writer.write(.flow(generation: 17, .path(.stack)))
      }
    })
    let bound = try await connctl("path", "fe80::77%lo", "--json", stub: stub)
    #expect(bound.status == 0)
    #expect(bound.screen.output == "\(JSON.path(.stack, to: "fe80::77%lo"))\n")
    #expect(bound.screen.errors == "")
    let explained = try await connctl("explain", "fe80::77%lo")
    #expect(explained.status == 64)
    #expect(explained.screen.errors.contains("“connctl path fe80::77%lo” shows its path"))
  }

  @Test("path takes host:port and URLs")
  func urls() async throws {
    for host in ["192.0.2.80:443", "https://192.0.2.80/page"] {
      #expect(try await connctl("path", host).status == 0)
    }
  }

  @Test("a name that is a link's: the error says so")
  func linkAsHost() async throws {
    let result = try await connctl("path", "lo")
    #expect(result.status == 1)
    #expect(
      result.screen.errors.contains("(it is a link of this machine: “connctl links” shows it)"))
  }

  @Test("a name that cannot be resolved: 1, and one line")
  func unresolved() async throws {
    // A label of more than 63 octets is invalid without asking a name server (RFC 1035).
    let result = try await connctl("path", String(repeating: "a", count: 64) + ".invalid")
    #expect(result.status == 1)
    #expect(result.screen.errors.hasPrefix("connctl: cannot resolve “aaa"))
    #expect(result.screen.errors.count(where: { $0 == "\n" }) == 1)
  }

  @Test("connections lists the worst first, filters by either end, and says if none matches")
  func connections() async throws {
    let all = try await connctl("connections")
    #expect(all.status == 0)
    let places = all.screen.outputLines.map { $0.contains("dead: ") }
    #expect(places == [false, true, false])
    let matched: [([String], Int)] = [
      (["--dead"], 1), (["203.0.113.9"], 1), ([":22"], 1), (["203.0.113.9:22", ":443"], 2),
      (["192.0.2.7:42912"], 1), (["198.51.100.7"], 1),
    ]
    for (arguments, count) in matched {
      let result = try await connctl(["connections", "--json"] + arguments)
      #expect(result.status == 0 && result.screen.outputLines.count == count, "\(arguments)")
    }
    for arguments in [["203.0.113.9:23"], ["--dead", ":443"]] {
      let result = try await connctl(["connections"] + arguments)
      #expect(result.status == 1 && result.screen.output == "", "\(arguments)")
      #expect(result.screen.errors.hasPrefix("connctl: no "))
    }
  }

  @Test("explain of a link's name asks about the link, and --link beside a host")
  func explainedLink() async throws {
    let named = try await connctl("explain", "docker0")
    #expect(named.status == 0 && named.screen.output.contains("not by    docker0: it is used"))
    #expect(named.screen.output.contains("the internet, by probing"))
    let beside = try await connctl("explain", "192.0.2.9", "--link", "wlan0")
    #expect(beside.screen.output.contains("not by    wlan0: it is used"))
    #expect(beside.screen.output.contains("\n192.0.2.9\n"))
  }

  @Test(
    "a name of a link that does not exist, or nothing where a host is expected → a clear error at once",
    arguments: [
      (
        ["explain", "eth7"],
        "no link is called “eth7” (links: wlan0, docker0); for a host of that name, add a dot: eth7."
      ),
      (["path", "fe80::1%nope0"], "there is no link “nope0”"),
      (["explain", "http://"], "a host name or an address is missing"),
      (["path", ":443"], "a host name or an address is missing"),
    ])
  func wrongNames(arguments: [String], words: String) async throws {
    let result = try await connctl(arguments)
    #expect(result.status == 1 && result.screen.output == "")
    #expect(result.screen.errors == "connctl: \(words)\n")
  }

  @Test("guard needs the link of a link-local address, and says how to write it")
  func linkLocal() async throws {
    let stub = StubConnd(onGuard: { requests, writer in
      for try await _ in requests {
        try await writer.write(
          .flow(generation: 17, .refused(.invalid("add.interface: set it"))))
      }
    })
    let result = try await connctl("guard", "fe80::1", stub: stub)
    #expect(result.status == 64)
    #expect(
      result.screen.errors.contains("fe80::1 is link-local: add its link, as in fe80::1%eth0"))
  }

  @Test("names that the kernel and systemd give to links")
  func typicalNames() {
    for name in ["eth7", "wlan0", "enp0s3", "wlp3s0", "wg0", "br0", "usb1", "enx020000000001"] {
      #expect(name.isTypicalLinkName, "\(name)")
    }
    for name in ["nas", "web1", "localhost", "eth", "db-2", "ethan", "", "7"] {
      #expect(!name.isTypicalLinkName, "\(name)")
    }
  }

  @Test("explain, links and history")
  func others() async throws {
    let explain = try await connctl("explain", "192.0.2.9", "--json")
    #expect(explain.status == 0)
    #expect(explain.screen.output.hasPrefix(#"{"destination": "192.0.2.9", "path": {"#))
    let links = try await connctl("links", "--json")
    #expect(links.screen.outputLines.count == 2)
    let history = try await connctl("history", "--json", "--limit", "1")
    #expect(
      history.screen.outputLines
        == [JSON.history(.transition(.bounce)), JSON.history(.invalidation(.sample))]
        .map(\.description))
    let text = try await connctl("history")
    #expect(
      text.screen.outputLines.map { $0.prefix { $0 != "·" } }.count { $0.hasPrefix("2026-") } == 2)
    // The sample is 185 s old.
    #expect(
      try await connctl("history", "--since", "10m").screen.outputLines.count
        == text.screen.outputLines.count)
    let none = try await connctl("history", "--since", "3m")
    #expect(none.screen.output == "" && none.status == 0)
    #expect(none.screen.errors == "connctl: nothing has changed in the last 3m\n")
  }

  @Test("history goes to the pager, except with --no-pager, --json or --graph")
  func pager() async throws {
    for (arguments, isPaged) in [
      ([], true), (["--no-pager"], false), (["--json"], false), (["--graph"], false),
    ] {
      let paged = Mutex("")
      let screen = Screen()
      var console = screen.console
      console.page = { text, lines in
        #expect(text.count { $0 == "\n" } == lines)
        paged.withLock { $0 = text }
        return true
      }
      try await withDirectory { [console] directory in
        let socket = "\(directory)/connd.sock"
        try await StubConnd().serving(socket) {
          #expect(
            await runConnctl(["history", "--socket", socket] + arguments, on: console) == 0)
        }
      }
      #expect(paged.withLock { $0.contains("wifi → none") } == isPaged, "\(arguments)")
      #expect((screen.output == "") == isPaged, "\(arguments)")
    }
  }

  @Test("a connd that does not know the command → both versions, and what to do: 69")
  func olderConnd() async throws {
    let result = try await connctl("connections", stub: StubConnd(isOld: true))
    #expect(result.status == 69 && result.screen.output == "")
    #expect(
      result.screen.errors
        == "connctl: the running connd is 0.0.9 and does not know this command of connctl \(Version.built): restart connd (systemctl restart connd.service)\n"
    )
    #expect("\(OlderConnd())".hasPrefix("the running connd is of an unknown version and "))
  }

  @Test("stats: present values, then counters")
  func stats() async throws {
    let stats = try await connctl("stats")
    #expect(stats.status == 0)
    let lines = stats.screen.outputLines
    #expect(lines.first == "connd 0.0.9 now")
    #expect(lines.dropFirst().first == "  subscribers                   2")
    #expect(
      Array(lines.suffix(5)) == [
        "  kernel losses                   0", "  overruns                       12",
        "  published: path                 3", "  published: transition         104",
        "  refutations: better path        5",
      ])
    let json = try await connctl("stats", "--json")
    #expect(
      json.screen.outputLines == [
        #"{"version": "0.0.9", "since": "2026-11-21T01:25:00.123456Z", "kernelLosses": 0, "overruns": 12, "#
          + #""subscribers": 2, "flowInvalidations": {}, "invalidations": {}, "limitsHit": {}, "#
          + #""published": {"path": 3, "transition": 104}, "refutations": {"betterPath": 5}}"#
      ])
  }

  @Test("is: 0 if the condition holds, 1 if not, and no output without --json")
  func conditions() async throws {
    let holds = try await connctl("is", "wifi")
    #expect(holds.status == 0)
    #expect(holds.screen.output + holds.screen.errors == "")
    #expect(try await connctl("is", "not-wifi").status == 1)
    let json = try await connctl("is", "ipv6", "--json")
    #expect(json.status == 1)
    #expect(
      json.screen.output == #"{"condition": "ipv6", "holds": false, "generation": 17}"# + "\n")
  }

  @Test("is --via a link that does not exist: 1, and the error names it")
  func missingLink() async throws {
    let typo = try await connctl("is", "online", "--via", "nope0")
    #expect(typo.status == 1)
    #expect(typo.screen.errors == "connctl: the link “nope0” does not exist\n")
    let idle = try await connctl("is", "online", "--via", "docker0")
    #expect(idle.status == 1 && idle.screen.errors == "")
  }

  @Test(
    "without connd: 69, and one line with the remedy",
    arguments: [
      ["status"], ["watch"], ["path", "192.0.2.1"], ["explain"], ["links"], ["history"],
      ["stats"], ["guard", "192.0.2.80"], ["is", "online"], ["wait", "online"],
      ["wait", "online", "--timeout", "10ms"],
      ["wait", "online", "--timeout", "0"],
    ])
  func notThere(arguments: [String]) async throws {
    try await withDirectory { directory in
      let screen = Screen()
      let socket = "\(directory)/connd.sock"
      #expect(
        await runConnctl(arguments + ["--socket", socket], on: screen.console)
          == 69)
      #expect(
        screen.errors == """
          connctl: connd is not running: there is no \(socket) \
          (start connd there, or name its socket with --socket or CONND_SOCKET)

          """)
      #expect(screen.output == "")
    }
  }

  @Test(
    "refused: 77",
    arguments: [["status"], ["watch"], ["wait", "online", "--timeout", "1h"], ["guard", "::1"]])
  func refused(arguments: [String]) async throws {
    let stub = StubConnd(error: RPCError(code: .permissionDenied, message: "not you"))
    try await withDirectory { directory in
      let socket = "\(directory)/connd.sock"
      try await stub.serving(socket) {
        let screen = Screen()
        #expect(
          await runConnctl(arguments + ["--socket", socket], on: screen.console)
            == 77)
        #expect(screen.errors.hasPrefix("connctl: connd refuses this user: not you"))
      }
    }
  }

  @Test("--help lists the exit codes, --version names the version, both succeed")
  func help() async {
    let help = Screen()
    #expect(await runConnctl(["--help"], on: help.console) == 0)
    for code in ["0 ", "1 ", "64", "69", "77"] {
      #expect(help.outputLines.contains { $0.hasPrefix("  \(code)  ") })
    }
    let version = Screen()
    #expect(await runConnctl(["--version"], on: version.console) == 0)
    #expect(version.output == "connctl \(Version.built)\n")
    #expect(Version.built.hasPrefix("0.1.0"))
  }
}
