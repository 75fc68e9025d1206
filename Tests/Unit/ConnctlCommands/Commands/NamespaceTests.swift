import Connectivity
import ConnectivityProtocol
import GRPCCore
import Glibc
import Testing

@testable import ConnctlCommands

/// connd watches another network namespace than connctl's, as in a container with its socket.
@Suite("Another network namespace")
struct NamespaceTests {
  /// connd in a namespace that does not exist.
  private static func connd() -> StubConnd {
    StubConnd(namespace: 1) { _, writer in
      try await writer.write(.snapshot(.sample))
      try await writer.write(.gap(.sample))
      await Gate().pass()
    }
  }

  private static let names =
    "connctl: connd watches the network namespace 1, and this process is in "

  @Test(
    "C7 conditions and destinations: 69, with what to do",
    arguments: [
      ["is", "online"], ["wait", "online"], ["wait", "online", "--timeout", "1h"],
      ["run", "--when", "online", "--", "false"],
      ["run", "--when", "online", "--stop", "--", "false"],
      ["keep", "online=none.service"], ["path", "192.0.2.9"], ["explain", "192.0.2.9"],
      ["reap", "--dry-run"], ["guard", "--stdin"],
    ])
  func refused(arguments: [String]) async throws {
    let screen = Screen()
    var console = screen.console
    // The input of `guard --stdin` ends at once.
    console.input = open("/dev/null", O_RDONLY)
    defer { close(console.input) }
    try await withDirectory { [console] directory in
      let socket = "\(directory)/connd.sock"
      try await Self.connd().serving(socket) {
        #expect(await runConnctl(["--socket", socket] + arguments, on: console) == 69)
      }
    }
    #expect(screen.output == "")
    let errors = screen.errors
    #expect(errors.hasPrefix(Self.names) && errors.split(separator: "\n").count == 1, "\(errors)")
    #expect(errors.hasSuffix(": run this command in connd's namespace, or a connd in this one\n"))
  }

  @Test(
    "C7 the other commands answer, and say in one line that it is about connd's namespace",
    arguments: [
      ["status"], [], ["status", "--format", "{category}"], ["explain"], ["explain", "wlan0"],
      ["connections"], ["watch"], ["links"], ["history"], ["networks"], ["why"],
      ["stats"], ["metrics"], ["metered"], ["metered", "wlan0", "on"], ["constrain", "wlan0"],
      ["assist", "auto"], ["forget", "Home"],
    ])
  func remark(arguments: [String]) async throws {
    let screen = Screen(lines: 1)
    let result = try await connctl(arguments, stub: Self.connd(), screen: screen)
    #expect(result.status == 0)
    let errors = screen.errors
    #expect(errors.hasPrefix(Self.names), "\(errors)")
    #expect(errors.hasSuffix(": this is about connd's\n"), "\(errors)")
    #expect(errors.split(separator: "\n").count == 1)
  }
}
