import ConnectivityMonitor
import Testing

@testable import ConnctlCommands

@Suite("Errors and help")
struct UsageTests {
  @Test("the advice depends on the path: the system's socket, another socket, or not a socket")
  func advice() {
    let error = ConndError.notThere("there is no x")
    #expect(error.advice(socket: "/run/connd/connd.sock").contains("systemctl start connd.socket"))
    #expect(!error.advice(socket: "/tmp/x/connd.sock").contains("systemctl"))
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
      ["guard", "[::1]:443", "--local", "192.0.2.7:40000"],
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
      (["stauts"], "There is no command 'stauts'. Did you mean 'status'?"),
      (["foo"], "There is no command 'foo'"),
      (["help", "nosuch"], "There is no command 'nosuch'"),
      (["history", "--limit", "-1"], "must not be negative"),
      (["watch", "--since", "-1"], "must not be negative"),
      (["watch", "--since", "99999999999999999999"], "at most 18446744073709551615"),
      (["wait", "online", "--timeout", "-1"], "must not be negative"),
      (["wait", "online", "--timeout", "soon"], "expected 500ms, 5s, 2m or 1h"),
      (["guard", "192.0.2.80", "--mark", "-1"], "must not be negative"),
      (["is", "foo"], "or not- and one of them"),
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
    let command = ["foo", "stauts", "help"].contains(arguments[0]) ? "" : "\(arguments[0]) "
    #expect(lines.contains { $0.hasPrefix("Usage: connctl \(command)[") }, "\(screen.errors)")
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
        Usage: connctl guard [<options>] <remote>
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
}
