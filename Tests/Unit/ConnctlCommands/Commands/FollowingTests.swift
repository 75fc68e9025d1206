import Connectivity
import ConnectivityJSON
import ConnectivityMonitor
import ConnectivityProtocol
import GRPCCore
import Synchronization
import Testing

@testable import ConnctlCommands

@Suite("connctl watch and wait")
struct FollowingTests {
  private static func endless(_ messages: [Connectivity_V1_WatchResponse]) -> StubConnd {
    StubConnd { _, writer in
      for message in messages { try await writer.write(message) }
      await Gate().pass()
    }
  }

  @Test("watch prints one object a line, and exits quietly when its reader closes the pipe")
  func watch() async throws {
    let stub = Self.endless([
      .snapshot(.sample), Connectivity_V1_WatchResponse(.transition(.sample)),
      Connectivity_V1_WatchResponse(.path(.sample)), .gap(.sample),
    ])
    let result = try await connctl("watch", "--json", stub: stub, screen: Screen(lines: 3))
    #expect(result.status == 0)
    #expect(result.screen.errors == "")
    #expect(
      result.screen.outputLines
        == [
          JSON.event(.snapshot(.sample)), JSON.event(.change(.transition(.sample))),
          JSON.event(.change(.path(.sample))),
        ].compactMap { $0?.description })
  }

  @Test(
    "watch survives a restart of connd: it reconnects, resumes, and reports it on standard error")
  func restart() async throws {
    try await withDirectory { directory in
      let socket = "\(directory)/connd.sock"
      let seen = Gate()
      // One line before the restart, one after, and one that no reader takes.
      let screen = Screen(lines: 2)
      let before = StubConnd { _, writer in
        try await writer.write(.snapshot(.sample))
        // It ends with its server.
        await Gate().pass()
      }
      let after = StubConnd { request, writer in
        #expect(request.sinceGeneration == 17)
        try await writer.write(Connectivity_V1_WatchResponse(.transition(.sample)))
        try await writer.write(.gap(.sample(21)))
      }
      var console = screen.console
      let write = console.write
      console.write = {
        try write($0)
        seen.open()
      }
      let program = try await before.serving(socket) { [console] in
        let program = Task {
          await runConnctl(["watch", "--json", "--socket", socket], on: console)
        }
        await seen.pass()
        return program
      }
      let status = try await after.serving(socket) { await program.value }
      #expect(status == 0)
      #expect(
        screen.outputLines
          == [
            JSON.event(.snapshot(.sample)), JSON.event(.change(.transition(.sample))),
          ].compactMap { $0?.description })
      let remarks = screen.errors.split(separator: "\n")
      #expect(remarks.first?.hasPrefix("connctl: connd went away (") == true)
      #expect(remarks.dropFirst() == ["connctl: connd is back; continuing after generation 17"])
    }
  }

  @Test("wait returns when the condition holds")
  func wait() async throws {
    let stub = Self.endless([
      .snapshot(.sample), Connectivity_V1_WatchResponse(.invalidation(.sample)),
      Connectivity_V1_WatchResponse(.transition(.sample)),
    ])
    #expect(try await connctl("wait", "wifi", stub: stub).status == 0)
    let result = try await connctl("wait", "none", "--json", "--timeout", "1h", stub: stub)
    #expect(result.status == 0)
    #expect(
      result.screen.output == #"{"condition": "none", "holds": true, "generation": 18}"# + "\n")
  }

  @Test("wait exits with 1 at the timeout")
  func timeout() async throws {
    let stub = Self.endless([.snapshot(.sample)])
    #expect(try await connctl("wait", "cellular", "--timeout", "300ms", stub: stub).status == 1)
    #expect(try await connctl("wait", "cellular", "--timeout", "0", stub: stub).status == 1)
    #expect(try await connctl("wait", "wifi", "--timeout", "0", stub: stub).status == 0)
  }

  @Test(
    "wait and run cannot begin before the user decides a cost → one line at once, how to decide",
    arguments: [
      ["wait", "not-metered"], ["run", "--when", "wifi,not-metered", "--", "true"],
      ["run", "--when", "not-metered", "--stop", "--", "true"],
    ])
  func undecided(arguments: [String]) async throws {
    var status = ConnectivityStatus.sample
    status.ipv4.costsMoney = nil
    let snapshot = ConnectivitySnapshot.sample(17, status)
    try await withDirectory { directory in
      let socket = "\(directory)/connd.sock"
      let (said, say) = AsyncStream.makeStream(of: String.self)
      var console = Screen().console
      console.complain = { say.yield($0) }
      try await Self.endless([.snapshot(snapshot), .gap(snapshot)]).serving(socket) { [console] in
        let program = Task { await runConnctl(["--socket", socket] + arguments, on: console) }
        let first = await said.first { _ in true }
        #expect(
          first
            == "connctl: waiting for “not-metered” (wifi via wlan0, cost unknown: decide it with “connctl metered wlan0 off”)\n"
        )
        program.cancel()
        _ = await program.value
      }
    }
  }

  @Test("wait says what is missing at the timeout, and on a terminal what it waits for")
  func timeoutHint() async throws {
    let stub = Self.endless([.snapshot(.sample)])
    let missing = "connctl: “not-wifi” does not hold after 300ms (wifi via wlan0)\n"
    try await withDirectory { directory in
      let socket = "\(directory)/connd.sock"
      try await stub.serving(socket) {
        let arguments = ["wait", "not-wifi", "--timeout", "300ms", "--socket", socket]
        let terminal = Screen()
        #expect(
          await runConnctl(arguments, on: terminal.console(errorWidth: 80)) == 1)
        #expect(terminal.errors == "connctl: waiting for “not-wifi” (wifi via wlan0)\n" + missing)
        let pipe = Screen()
        #expect(await runConnctl(arguments, on: pipe.console) == 1)
        #expect(pipe.errors == missing)
        #expect(pipe.output + terminal.output == "")
      }
    }
  }

  @Test("wait with a timeout also waits for connd")
  func maxWait() async throws {
    try await withDirectory { directory in
      let socket = "\(directory)/connd.sock"
      let program = Task {
        await runConnctl(
          ["wait", "wifi", "--timeout", "1h", "--socket", socket], on: Screen().console)
      }
      let stub = Self.endless([.snapshot(.sample)])
      let status = try await stub.serving(socket) { await program.value }
      #expect(status == 0)
    }
  }
}
