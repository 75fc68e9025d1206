import Glibc
import TestKit
import TestTraits
import Testing

/// connctl's output and exit status.
@Suite("Command line with connd", .needsNamespaces, .blocking)
struct CommandLineScenario {
  private func online(configuration: String = "") throws -> Laboratory {
    let lab = try Laboratory(configuration: configuration)
    try lab.addLink("eth0", "192.0.2.2")
    try lab.namespace.ip("route add default via 192.0.2.1")
    return lab
  }

  @Test(
    "the reader of watch or guard closes the pipe → connctl exits, even if nothing happens",
    arguments: [["watch"], ["guard", "198.51.100.9"]])
  func reader(command: [String]) throws {
    let lab = try self.online()
    try lab.start()
    let script = #""$@" | head -n 1; echo "${PIPESTATUS[0]}""#
    let shell = ["bash", "-c", script, "bash", Programs.connctl, "--socket", lab.socket]
    let output = try Command.run(
      lab.namespace.wrapped(shell + command), within: .seconds(20))
    #expect(output.split(separator: "\n").count == 2 && output.hasSuffix("\n0\n"), "\(output)")
  }

  @Test("standard output is closed → an error and 1, and the text goes nowhere else")
  func closedOutput() throws {
    let lab = try self.online()
    try lab.start()
    let outcome = try Command.outcome(
      of: lab.namespace.wrapped([
        "sh", "-c", #""$0" --socket "$1" status >&-"#, Programs.connctl, lab.socket,
      ]))
    #expect(outcome.status == 1)
    #expect(outcome.standardError == "connctl: cannot write: Bad file descriptor\n")
  }

  @Test("the page for OpenRC and runit has the log level, and options that connd has")
  func otherInits() throws {
    let page = try Command.run(["cat", Checkout.path("docs/how-to/without-systemd.md")])
    let help = try Command.run([Programs.connd, "--help"])
    for option in ["--log-level", "--check-config"] {
      #expect(page.contains(option) && help.contains(option), "\(option)")
    }
    #expect(page.contains("\n## OpenRC\n") && page.contains("\n## runit\n"))
  }

  @Test("connd's backlog is full → connctl gives up in time")
  func fullQueue() throws {
    let lab = try Laboratory()
    let listener = try lab.python("hostile.py", "accepts_nobody")
    try listener.line { $0 == "held" }
    let status = try lab.connctl("status")
    #expect(
      status.status == 69 && status.standardError.contains("its backlog is full"), "\(status)")
    #expect(try lab.connctl("wait", "online", "--timeout", "1s").status == 69)
  }

  @Test(
    "connctl's exit status tells the result",
    .enabled(if: Users.areMany, "only one user exists here"))
  func exitCodes() throws {
    let lab = try self.online()
    #expect(try lab.connctl("status").status == 69)
    #expect(try lab.connctl("wait", "--timeout", "1ms", "online").status == 69)
    try lab.startConnd()
    #expect(try lab.connctl("status").status == 0)
    #expect(try lab.connctl("is", "online").status == 0)
    #expect(try lab.connctl("is", "wifi").status == 1)
    #expect(try lab.connctl("wait", "--timeout", "1s", "wifi").status == 1)
    #expect(try lab.connctl("path", "192.0.2.1").status == 0)
    #expect(try lab.connctl("path", "2001:db8::1").status == 1)
    #expect(try lab.connctl("is", "telepathic").status == 64)
    #expect(try lab.connctl("frobnicate").status == 64)

    // A socket without permission to connect.
    lab.directory.open()
    chmod(lab.socket, 0o600)
    let refused = try Command.outcome(
      of: Programs.asNobody([Programs.connctl, "--socket", lab.socket, "status"]))
    #expect(refused.status == 77)
    #expect(refused.standardError.contains(lab.socket))
  }

  @Test(
    "a third user listens → connctl takes its socket only by a path without that user's links, and not from the environment",
    .enabled(if: Users.areMany, "only one user exists here"))
  func foreignServer() throws {
    let lab = try Laboratory()
    lab.directory.open()
    let (own, shared) = ("\(lab.directory.path)/own", "\(lab.directory.path)/shared")
    for directory in [own, shared] { #expect(mkdir(directory, 0o755) == 0) }
    #expect(chown(own, 65534, 65534) == 0)
    let socket = "\(own)/connd.sock"
    #expect(symlink(socket, "\(shared)/connd.sock") == 0)
    #expect(lchown("\(shared)/connd.sock", 65534, 65534) == 0)
    #expect(symlink("../own", "\(shared)/roots") == 0)
    let connd = try lab.namespace.spawn(
      Programs.asNobody([Programs.connd, "--config", "/dev/null", "--socket", socket]))
    defer { _ = try? connd.terminate() }

    func status(_ path: String) throws -> Int {
      try Command.outcome(of: [Programs.connctl, "--socket", path, "status"]).status
    }
    try waitUntil("connd answers") { try status(socket) == 0 }
    #expect(try status("\(shared)/roots/connd.sock") == 0)
    #expect(try status("\(shared)/connd.sock") == 69)
    let named = try Command.outcome(
      of: [Programs.connctl, "status"], environment: ["CONND_SOCKET": socket])
    #expect(named.status == 69)
    #expect(named.standardError.contains("uid 65534 listens on \(socket)"), "\(named)")
    let user = Programs.asNobody([Programs.connctl, "status"]).map {
      $0.replacing("65534", with: "1")
    }
    #expect(try Command.outcome(of: user, environment: ["XDG_RUNTIME_DIR": own]).status == 69)
  }

  @Test("without /proc → each program does what its arguments say")
  func withoutProc() throws {
    let lab = try Laboratory()
    let hidden = [
      "unshare", "--mount", "sh", "-c", #"mount -t tmpfs none /proc && exec "$@""#, "sh",
    ]
    func run(_ arguments: [String]) throws -> Command.Outcome {
      try Command.outcome(of: lab.namespace.wrapped(hidden + arguments), within: .seconds(20))
    }
    for program in [Programs.connd, Programs.connctl, Programs.multipath] {
      #expect(try run([program, "--version"]).output.hasSuffix(" 0.1.0\n"))
    }
    #expect(try run([Programs.connd, "--check-config", "/no/file"]).status == 78)
    let status = try run([Programs.connctl, "--socket", "/no/socket", "status"])
    #expect(status.status == 69 && status.standardError.contains("/no/socket"), "\(status)")
    #expect(try run([Programs.multipath, "--dry-run", "--socket", "/no/socket"]).status == 69)
  }

  @Test("an empty socket path is a usage error, for both programs")
  func emptySocket() throws {
    for arguments in [[Programs.connd], [Programs.connctl, "status"]] {
      let outcome = try Command.outcome(of: arguments + ["--socket", ""])
      #expect(outcome.status == 64)
      #expect(outcome.standardError.contains("--socket needs a path"))
    }
  }

  @Test("help is shown at any width of COLUMNS", arguments: ["-3", "0", "10", "39", "50"])
  func narrowHelp(columns: String) throws {
    for arguments in [
      [Programs.connd, "--help"], [Programs.connctl, "--help"],
      [Programs.connctl, "help", "guard"],
    ] {
      let help = try RunningCommand(arguments, environment: ["COLUMNS": columns])
      let output = try help.remainingOutput()
      #expect(try help.wait() == 0, "\(help.standardError)")
      #expect(output.contains("--socket <path>"))
    }
  }

  @Test("an address that connd cannot guard or look up → an error that names it, and the reason")
  func refusals() throws {
    let lab = try self.online()
    try lab.startConnd()
    for command in ["guard", "path", "explain"] {
      for address in ["0.0.0.0", "::"] {
        let outcome = try lab.connctl(command, address)
        #expect(outcome.status == 64)
        #expect(outcome.standardError.contains("'\(address)' is not a host address"))
      }
    }
    let name = "a-link-with-a-name-that-no-link-can-have"
    let outcome = try lab.connctl("guard", "203.0.113.9", "--interface", name)
    #expect(outcome.status == 64)
    #expect(outcome.standardError.contains("there is no link '\(name)'"))
  }

  @Test("a flow that was never viable is reported as such, and not as destroyed")
  func neverViable() throws {
    let lab = try self.online(configuration: "links: [{match: eth0, expensive: true}]")
    try lab.startConnd()
    for (arguments, words) in [
      (["--forbid-metered"], "policy: the path is metered"),
      (["--local", "198.51.100.7"], "198.51.100.7 is not an address of this machine"),
    ] {
      let outcome = try Command.outcome(
        of: lab.namespace.wrapped(
          [Programs.connctl, "--socket", lab.socket, "guard", "203.0.113.9"] + arguments))
      #expect(outcome.status == 0)
      // One line, because standard output is not a terminal.
      let lines = outcome.output.split(separator: "\n")
      #expect(lines.count == 1)
      #expect(lines.last?.contains(words) == true, "\(outcome.output)")
    }
  }

  @Test("wait returns when its condition becomes true")
  func wait() throws {
    let lab = try Laboratory()
    try lab.addLink("eth0", "192.0.2.2")
    // It also waits for connd.
    let waiting = try lab.namespace.spawn(
      [Programs.connctl, "--socket", lab.socket, "wait", "--timeout", "60s", "online"])
    // This line comes before or after READY, depending on connctl's next attempt.
    try lab.startConnd { $0 == "STATUS=none, 1 subscriber" }
    try lab.ip("route add default via 192.0.2.1")
    #expect(try waiting.wait() == 0)
  }
}
