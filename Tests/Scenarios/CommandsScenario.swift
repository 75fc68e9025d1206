import Glibc
import TestKit
import TestTraits
import Testing

/// Commands that connctl runs under conditions, and on changes.
@Suite("Commands that connctl runs", .needsNamespaces, .blocking)
struct CommandsScenario {
  private func online() throws -> Laboratory {
    let lab = try Laboratory(configuration: "links: [{match: eth0, medium: wired}]")
    try lab.addLink("eth0", "192.0.2.2")
    try lab.namespace.ip("route add default via 192.0.2.1")
    try lab.startConnd()
    return lab
  }

  private func spawn(_ lab: Laboratory, _ arguments: String...) throws -> RunningCommand {
    try lab.namespace.spawn([Programs.connctl, "--socket", lab.socket] + arguments)
  }

  /// Waits for a line on a command's standard error.
  private func waitForError(_ words: String, of command: RunningCommand) throws {
    try waitUntil("connctl says “\(words)”") { command.standardError.contains(words) }
  }

  @Test(
    "a command runs on each transition, one after the other, with the transition in its environment"
  )
  func transitions() throws {
    let lab = try self.online()
    let script = #"echo "$CONND_EVENT $CONND_FROM>$CONND_CATEGORY $CONND_GENERATION"; cat"#
    let hook = try self.spawn(lab, "on", "transition", "--", "sh", "-c", script)
    // connctl follows once connd counts it.
    try waitUntil("the hook follows") {
      try lab.connctl("stats").output.contains(/subscribers +1\n/)
    }
    try lab.outside.ip("link set eth0 down")
    let down = try #require(try hook.nextLine())
    #expect(down.hasPrefix("transition wired>none "))
    let event: EventReport = try decode(try #require(try hook.nextLine()))
    #expect(event.event == "transition" && down.hasSuffix(" \(event.generation)"))
    try lab.outside.ip("link set eth0 up")
    #expect(try hook.nextLine()?.hasPrefix("transition none>wired ") == true)
  }

  @Test("on --now also runs the command at the start, with the present state")
  func now() throws {
    let lab = try self.online()
    let hook = try self.spawn(
      lab, "on", "--now", "transition", "--", "sh", "-c", #"echo "$CONND_EVENT $CONND_CATEGORY""#)
    #expect(try hook.nextLine() == "snapshot wired")
    try lab.outside.ip("link set eth0 down")
    #expect(try hook.nextLine() == "transition none")
  }

  @Test("a command run on an invalidation gets the category of that moment")
  func invalidations() throws {
    let lab = try self.online()
    let hook = try self.spawn(
      lab, "on", "invalidation", "--", "sh", "-c", #"echo "$CONND_EVENT $CONND_CATEGORY""#)
    try waitUntil("the hook follows") {
      try lab.connctl("stats").output.contains(/subscribers +1\n/)
    }
    try lab.outside.ip("link set eth0 down")
    #expect(try hook.nextLine() == "invalidation none")
  }

  @Test(
    "D7 a command runs when the DNS servers change, whether the file is rewritten or replaced"
  )
  func dns() throws {
    let lab = try Laboratory(configuration: "links: [{match: eth0, medium: wired}]")
    try lab.addLink("eth0", "192.0.2.2")
    // A directory that only connd sees as /etc.
    let etc = try TemporaryDirectory()
    etc.open()
    try etc.write("nameserver 192.0.2.53\n", to: "resolv.conf")
    let mount = #"mount --make-rprivate / && mount --bind "$0" /etc && exec "$@""#
    try lab.startConnd(prefix: ["unshare", "--mount", "sh", "-c", mount, etc.path])
    #expect(try lab.connctl("dns").output == "default  192.0.2.53\n")
    let hook = try self.spawn(
      lab, "on", "dns", "--", "sh", "-c", #"echo "$CONND_EVENT $CONND_GENERATION"; cat"#)
    try waitUntil("the hook follows") {
      try lab.connctl("stats").output.contains(/subscribers +1\n/)
    }
    func told() throws -> DNSReport {
      let head = try #require(try hook.nextLine())
      let report: DNSReport = try decode(try #require(try hook.nextLine()))
      #expect(report.event == "dns" && head == "dns \(report.generation)")
      return report
    }
    try etc.write("nameserver 192.0.2.54\nsearch example.org\n", to: "resolv.conf")
    var report = try told()
    #expect(report.servers == ["192.0.2.54"] && report.search == ["example.org"])
    #expect(report.cause.change == "serversChanged")
    // A rewrite without a change is not reported.
    try etc.write("# again\nnameserver 192.0.2.54\nsearch example.org\n", to: "resolv.conf")
    // Nor is a file that is empty for a moment.
    try etc.write("", to: "resolv.conf")
    try etc.write("nameserver 192.0.2.54\nsearch example.org\n", to: "resolv.conf")
    try etc.write("nameserver 192.0.2.54\nsearch example.com\n", to: "resolv.conf.new")
    #expect(rename("\(etc.path)/resolv.conf.new", "\(etc.path)/resolv.conf") == 0)
    report = try told()
    #expect(report.search == ["example.com"] && report.cause.change == "searchChanged")
    #expect(unlink("\(etc.path)/resolv.conf") == 0)
    #expect(try told().servers == [])
    #expect(try lab.connctl("dns").status == 1)
  }

  @Test("a command that times out, fails or is missing delays no later one")
  func failures() throws {
    let lab = try self.online()
    let script = #"[ "$CONND_CATEGORY" = none ] && exec sleep 1000; echo "$CONND_CATEGORY"; exit 3"#
    let slow = try self.spawn(
      lab, "on", "transition", "--timeout", "100ms", "--", "sh", "-c", script)
    // A misspelt command does not wait for the first change to fail.
    let absent = try lab.connctl("on", "transition", "--", "/nonexistent/command")
    #expect(
      absent.status == 127 && absent.standardError.contains("cannot run “/nonexistent/command”"))
    #expect(try lab.connctl("on", "transition", "--", "/").status == 126)
    try waitUntil("it follows") { try lab.connctl("stats").output.contains(/subscribers +1\n/) }
    try lab.outside.ip("link set eth0 down")
    try self.waitForError("“sh” exceeded 100ms and is terminated", of: slow)
    try self.waitForError("“sh” exited with 143", of: slow)
    try lab.outside.ip("link set eth0 up")
    #expect(try slow.nextLine() == "wired")
    try self.waitForError("“sh” exited with 3", of: slow)
  }

  @Test("a command runs once its conditions hold, and connctl exits with its status")
  func conditions() throws {
    let lab = try self.online()
    func status(_ arguments: String...) throws -> Int {
      try Command.outcome(
        of: lab.namespace.wrapped(
          [Programs.connctl, "--socket", lab.socket, "run", "--when"] + arguments)
      ).status
    }
    #expect(try status("online,not-expensive", "--", "sh", "-c", "exit 7") == 7)
    #expect(try status("online", "--", "sh", "-c", "kill -TERM $$") == 128 + Int(SIGTERM))
    #expect(try status("online", "--stop", "--", "sh", "-c", "kill -TERM $$") == 128 + Int(SIGTERM))
    #expect(try status("online", "sh", "-c", "exit 7") == 7)
    #expect(try status("online", "--", "/nonexistent/command") == 127)
    #expect(try status("online", "--", "/") == 126)
    let waiting = try self.spawn(lab, "run", "--when", "none,not-wifi", "--", "echo", "offline")
    try lab.outside.ip("link set eth0 down")
    #expect(try waiting.nextLine() == "offline")
    #expect(try waiting.wait() == 0)
  }

  @Test("with --stop a command is stopped while its conditions do not hold; signals reach it")
  func stopped() throws {
    let lab = try self.online()
    let script = "echo $$; trap 'echo ended; exit 5' TERM; while :; do sleep 1000 & wait; done"
    let run = try self.spawn(lab, "run", "--when", "online", "--stop", "--", "sh", "-c", script)
    let command = try #require(try run.nextLine())
    func state() throws -> Character? {
      let fields = try Command.run(["cat", "/proc/\(command)/stat"]).split(separator: " ")
      return fields.dropFirst(2).first?.first
    }
    try lab.outside.ip("link set eth0 down")
    try waitUntil("it stands still") { try state() == "T" }
    try lab.outside.ip("link set eth0 up")
    try waitUntil("it goes on") { try state() == "S" }
    try lab.outside.ip("link set eth0 down")
    try waitUntil("it stands still again") { try state() == "T" }
    run.signal(SIGTERM)
    #expect(try run.nextLine() == "ended")
    #expect(try run.wait() == 5)
  }

  @Test("connd is restarted → the command continues, and hooks get the later events")
  func restart() throws {
    let lab = try self.online()
    let hook = try self.spawn(
      lab, "on", "transition", "--", "sh", "-c", #"echo "$CONND_CATEGORY""#)
    let run = try self.spawn(lab, "run", "--when", "online", "--stop", "--", "sleep", "1000")
    try waitUntil("both follow") { try lab.connctl("stats").output.contains(/subscribers +2\n/) }
    #expect(try lab.connd?.terminate() == 0)
    try self.waitForError("connd went away", of: hook)
    try self.waitForError("the command is left as it is", of: run)
    try lab.startConnd()
    try self.waitForError("connd is back", of: hook)
    try lab.outside.ip("link set eth0 down")
    #expect(try hook.nextLine() == "none")
    #expect(try run.terminate() == 128 + Int(SIGTERM))
  }

  @Test(
    "units start and stop with their conditions; a short outage or a restart of connd stops none"
  )
  func units() throws {
    let lab = try Laboratory(configuration: "links: [{match: eth0, medium: wired}]")
    try lab.addLink("eth0", "192.0.2.2")
    try lab.startConnd()
    // A systemctl that prints its arguments.
    let programs = try TemporaryDirectory()
    let systemctl = try programs.write("#!/bin/sh\necho \"$*\"\n", to: "systemctl")
    #expect(chmod(systemctl, 0o755) == 0)
    let keep = try lab.namespace.spawn([
      "sh", "-c", #"PATH="$0:$PATH"; exec "$@""#, programs.path, Programs.connctl, "--socket",
      lab.socket, "keep", "--grace", "2s", "online=connd-online.target",
      "online,not-expensive,not-constrained=connd-unmetered.target",
    ])
    func expect(_ lines: String...) throws {
      for line in lines { #expect(try keep.nextLine() == "--no-block \(line)") }
    }
    // The machine starts without a network.
    try expect("stop -- connd-online.target", "stop -- connd-unmetered.target")
    try lab.namespace.ip("route add default via 192.0.2.1")
    try expect("start -- connd-online.target", "start -- connd-unmetered.target")
    // Lost, and back within the grace period; the next report is about something else.
    try lab.outside.ip("link set eth0 down")
    try lab.outside.ip("link set eth0 up")
    // A connd that goes away changes no condition.
    #expect(try lab.connd?.terminate() == 0)
    try self.waitForError("the units are left as they are", of: keep)
    try lab.startConnd()
    try self.waitForError("connd is back", of: keep)
    #expect(try lab.connctl("expensive", "eth0", "on").status == 0)
    try expect("stop -- connd-unmetered.target")
    #expect(try lab.connctl("expensive", "eth0", "auto").status == 0)
    try expect("start -- connd-unmetered.target")
    #expect(try lab.connctl("constrain", "eth0", "on").status == 0)
    try expect("stop -- connd-unmetered.target")
    try lab.outside.ip("link set eth0 down")
    try expect("stop -- connd-online.target")
    keep.signal(SIGTERM)
    #expect(try keep.wait() == 128 + Int(SIGTERM))
  }

  @Test(
    "connctl handles units before connd is there, and retries a failed systemctl")
  func unitsWithoutConnd() throws {
    let lab = try Laboratory(configuration: "links: [{match: eth0, medium: wired}]")
    try lab.addLink("eth0", "192.0.2.2")
    let programs = try TemporaryDirectory()
    let systemctl = try programs.write("#!/bin/sh\necho \"$*\"\nexit 5\n", to: "systemctl")
    #expect(chmod(systemctl, 0o755) == 0)
    let keep = try lab.namespace.spawn([
      "sh", "-c", #"PATH="$0:$PATH"; exec "$@""#, programs.path, Programs.connctl, "--socket",
      lab.socket, "keep", "--user", "online=sync.service",
    ])
    try self.waitForError("waiting for connd", of: keep)
    try lab.startConnd()
    #expect(try keep.nextLine() == "--user --no-block stop -- sync.service")
    try self.waitForError("sync.service: stop failed: systemctl exited with 5", of: keep)
    try lab.namespace.ip("route add default via 192.0.2.1")
    #expect(try keep.nextLine() == "--user --no-block start -- sync.service")
    keep.signal(SIGTERM)
    #expect(try keep.wait() == 128 + Int(SIGTERM))
  }

  @Test(
    "keep without systemd → one error, exit status 1",
    .enabled(if: access("/run/systemd/system", F_OK) != 0, "systemd runs here"))
  func withoutSystemd() throws {
    let lab = try self.online()
    let programs = try TemporaryDirectory()
    let systemctl = try programs.write("#!/bin/sh\nexit 1\n", to: "systemctl")
    #expect(chmod(systemctl, 0o755) == 0)
    let keep = try lab.namespace.spawn([
      "sh", "-c", #"PATH="$0:$PATH"; exec "$@""#, programs.path, Programs.connctl, "--socket",
      lab.socket, "keep", "online=none.service",
    ])
    #expect(try keep.wait() == 1)
    #expect(keep.standardError == "connctl: systemd does not run here, and keep needs it\n")
  }
}
