import ArgumentParser
import ConnectivityMonitor
import Testing

@testable import ConnctlCommands

@Suite("Errors and help")
struct UsageTests {
  @Test("the advice depends on the path: the system's socket, another socket, or not a socket")
  func advice() {
    let error = ConndError.notAvailable("connd is not running")
    let system = "/run/connd/connd.sock"
    #expect(error.advice(socket: system, hasSystemd: true).contains("systemctl start connd.socket"))
    #expect(!error.advice(socket: system, hasSystemd: false).contains("systemctl"))
    #expect(!error.advice(socket: "/tmp/x/connd.sock", hasSystemd: true).contains("systemctl"))
    #expect(error.advice(socket: "/dev/null").contains("/dev/null is not a socket"))
    #expect(error.advice(socket: "/").contains("/ is not a socket"))
    for socket in ["/run/connd/connd.sock", "/tmp/x/connd.sock", "/dev/null"] {
      #expect(error.advice(socket: socket).hasSuffix("with --socket or CONND_SOCKET)"))
    }
  }

  @Test("on a terminal an error is wrapped, elsewhere it is one line")
  func errorLines() async throws {
    let screen = Screen()
    let status = await runConnctl(
      ["status", "--socket", "/nonexistent/connd.sock"], on: screen.console(errorWidth: 60))
    #expect(status == 69)
    let lines = screen.errors.split(separator: "\n", omittingEmptySubsequences: false)
    #expect(lines.count > 2)
    #expect(lines.allSatisfy { $0.count <= 60 })
    #expect(lines.last == "")
    #expect(lines.dropFirst().dropLast().allSatisfy { $0.hasPrefix("  ") })
  }

  @Test("help says what 69 means, and that run --guard needs no connd")
  func statuses() async {
    let (general, run) = (Screen(), Screen())
    #expect(await runConnctl(["--help"], on: general.console) == 0)
    #expect(
      general.output.contains(
        "  69  connd is not running, at a limit, does not answer,\n      or watches another network namespace\n"
      ))
    #expect(await runConnctl(["help", "run"], on: run.console) == 0)
    let text = run.output.split { $0 == " " || $0 == "\n" }.joined(separator: " ")
    #expect(text.contains("With --guard but without --when, the command runs also without connd"))
  }

  @Test(
    "wrong usage: 64",
    arguments: [
      ["run", "--when", "online"], ["run", "--", "true"],
      ["run", "--when", "online,", "--", "true"],
      ["keep"], ["keep", "online"], ["keep", "online="], ["keep", "online=-x"],
      ["keep", "sunny=a.target"],
      ["keep", "online=a.target", "wifi=a.target"], ["keep", "--grace", "x", "online=a.target"],
      ["on", "weather", "--", "true"], ["on", "path"],
      ["on", "path", "--timeout", "x", "--", "true"],
      ["top", "--json"], ["--json", "keep", "online=a.service"], ["constrain", "--json"],
      ["run", "--json", "--when", "online", "--", "true"], ["watch", "--format", "{"],
      ["status", "--format", "{category}", "--json"], ["completion", "tcsh"],
      ["nonsense"], ["status", "extra"], ["is"], ["is", "sunny"],
      ["wait", "online", "--timeout", "x"],
      ["wait", "online", "--timeout=-1"], ["path"], ["--socket", "", "status"],
      ["history", "--limit", "0"], ["status", "--socket"], ["guard"],
      ["guard", "192.0.2.80", "--local", "here"], ["guard", "192.0.2.80", "--local", "::1"],
      ["guard", "192.0.2.80", "--mark", "+1"], ["guard", "192.0.2.80", "--mark", "0x"],
      ["guard", "192.0.2.80", "--interface", ""], ["help", "nonsense"],
      ["--json", "help", "nonsense"], ["--socket", "status", "nonsense"],
      ["--socket=/x", "nonsense", "--help"], ["history", "--limit", "-1"],
      ["history", "--limit=+1"], ["watch", "--since", "-1"],
      ["wait", "online", "--timeout", "-5s"],
      ["guard", "192.0.2.80", "--mark", "-1"], ["guard", "localhost", "--local", "nowhere"],
      ["guard", "192.0.2.80:0"], ["guard", "192.0.2.80:65536"], ["guard", "[::1"],
      ["guard", "192.0.2.80", "--local", "192.0.2.7:x"],
      ["guard", "192.0.2.80", "--protocol", "sctp"],
      ["guard", "[::1]:443", "--local", "192.0.2.7:40000"], ["guard", "192.0.2.80", "--stdin"],
      ["guard", "--stdin", "--local", "192.0.2.7"],
    ])
  func usage(arguments: [String]) async {
    let screen = Screen()
    #expect(await runConnctl(arguments, on: screen.console) == 64)
    #expect(screen.output == "")
    #expect(screen.errors.contains("Usage: connctl"))
  }

  @Test(
    "wrong usage: one line with the error, and the correct usage",
    arguments: [
      (["stauts"], "unknown command 'stauts'. Did you mean 'status'?"),
      (["foo"], "unknown command 'foo'"), (["ls"], "Did you mean 'links'?"),
      (["list"], "Did you mean 'links'?"), (["monitor"], "Did you mean 'watch'?"),
      (["show"], "Did you mean 'status'?"), (["offline"], "Did you mean 'is none'?"),
      (["version"], "Did you mean '--version'?"),
      (["--verison"], "Unknown option '--verison'. Did you mean '--version'?"),
      (["-v"], "Unknown option '-v'. Did you mean '--version'?"),
      (["status", "--format", "{cause}"], "{cause} is a field of changes, for connctl watch"),
      (
        ["run", "--when", "online", "--stpo", "--", "true"],
        "unknown option '--stpo'. Did you mean '--stop'? Before a command of that name, write --"
      ),
      (["report", "-"], "“-” is not a file"), (["record", "/dev/stdout"], "is not a file"),
      (["is", "metred"], "unknown condition 'metred'. Did you mean 'metered'?"),
      (["keep", "foo=bar.service"], "unknown condition 'foo'"),
      (["run", "--when", "online,onlin", "--", "true"], "unknown condition 'onlin'."),
      (["top", "--json"], "top prints no JSON. --json works with status, why, explain, path"),
      (["watch", "--for", "1s"], "Unknown option '--for'"),
      (["watch", "--format", "{categry}"], "unknown field {categry}. Did you mean {category}?"),
      (["metered", "no"], "“no” is not on, off or auto"),
      (["help", "nosuch"], "unknown command 'nosuch'"),
      (["history", "--limit", "-1"], "must not be negative"),
      (["watch", "--since", "-1"], "must not be negative"),
      (["watch", "--since", "99999999999999999999"], "at most 18446744073709551615"),
      (["wait", "online", "--timeout", "-1"], "must not be negative"),
      (
        ["wait", "online", "--timeout", "soon"],
        "expected 500ms, 5s, 2m, 1h or 1d; a number alone is in seconds"
      ),
      (["guard", "192.0.2.80", "--mark", "-1"], "must not be negative"),
      (["guard"], "a remote end or --stdin is required"),
      (["is", "foo"], "Put not- before one to negate it."),
      (["guard", "192.0.2.80", "--local", "::1"], "no address of the family of --local"),
      (["guard", "192.0.2.80:70000"], "“70000” is not a port: write 1 to 65535"),
      (["guard", "192.0.2.80", "--local", "[::1]443"], "write [2001:db8::1]:443"),
    ])
  func usageWords(arguments: [String], words: String) async {
    let screen = Screen()
    #expect(await runConnctl(arguments, on: screen.console) == 64)
    let lines = screen.errors.split(separator: "\n")
    #expect(lines.first?.contains(words) == true, "\(screen.errors)")
    #expect(lines.count <= 4)
    let isCommand = (Connctl.commandNames + ["expensive"]).contains(arguments[0])
    let command = isCommand ? "\(arguments[0]) " : ""
    #expect(lines.contains { $0.hasPrefix("Usage: connctl \(command)") }, "\(screen.errors)")
    #expect(!screen.errors.contains("Did you mean '--json'"))
    let wide = Screen()
    #expect(await runConnctl(arguments, on: wide.console(errorWidth: 80)) == 64)
    for line in wide.errors.split(separator: "\n") { #expect(line.count <= 80, "\(line)") }
  }

  @Test("an address that resolves to another family: the command's usage")
  func resolvedFamily() async {
    let screen = Screen()
    // The C library also resolves abbreviated IPv4 addresses.
    let status = await runConnctl(
      ["guard", "127.1", "--local", "::1"], on: screen.console)
    #expect(status == 64)
    #expect(
      screen.errors == """
        Error: “127.1” has no address of the family of --local
        Usage: connctl guard [<options>] (<remote> | --stdin)
          See 'connctl guard --help' for more information.

        """)
  }

  @Test(
    "no help is wider than 80 columns",
    arguments: [[]] + Connctl.commandNames.map { [$0] }
  )
  func helpWidth(command: [String]) async {
    let screen = Screen()
    #expect(await runConnctl(["help"] + command, on: screen.console) == 0)
    #expect(screen.output.contains("USAGE: \((["connctl"] + command).joined(separator: " ")) "))
    for line in screen.outputLines { #expect(line.count <= 80, "\(line)") }
  }

  @Test("every command's help has examples that parse, and its exit status")
  func examples() async throws {
    for command in Connctl.commandNames {
      let screen = Screen()
      #expect(await runConnctl(["help", command], on: screen.console) == 0)
      #expect(screen.output.contains("Exit status: "), "\(command)")
      let option = Screen()
      #expect(await runConnctl([command, "--help"], on: option.console) == 0)
      #expect(option.output == screen.output, "\(command)")
      let lines = screen.output.split(separator: "\n", omittingEmptySubsequences: false)
      let examples = lines.drop { $0 != "Examples:" }.dropFirst().prefix { $0.hasPrefix("  ") }
      #expect(!examples.isEmpty, "\(command)")
      for example in examples {
        // Up to what belongs to the shell.
        let words = example.split(separator: " ").map(String.init)
        let own = words.prefix { !["&&", "||", "|", ">", ">/dev/null"].contains($0) }
        guard own.first == "connctl", !example.contains("'"), !example.contains("\"") else {
          continue
        }
        #expect(throws: Never.self, "\(example)") {
          try Connctl.parseAsRoot(Array(own.dropFirst()))
        }
      }
    }
  }

  @Test("the list of commands is grouped, and JSON is offered only by commands that print it")
  func groups() async {
    let screen = Screen()
    #expect(await runConnctl(["--help"], on: screen.console) == 0)
    for group in ["LOOK", "FOLLOW", "SCRIPT", "COSTS", "TROUBLE"] {
      #expect(screen.output.contains("\(group) SUBCOMMANDS:"), "\(group)")
    }
    #expect(!screen.output.contains("names "))
    for (command, hasJSON) in [("status", true), ("top", false), ("on", false), ("keep", false)] {
      let help = Screen()
      #expect(await runConnctl(["help", command], on: help.console) == 0)
      #expect(help.outputLines.contains { $0.hasPrefix("  --json ") } == hasJSON, "\(command)")
    }
  }
}
