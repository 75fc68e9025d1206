import Connectivity
import ConnectivityJSON
import ConnectivityMonitor
import ConnectivityProtocol
import GRPCCore
import Synchronization
import Testing

@testable import ConnctlCommands

@Suite("connctl guard")
struct GuardTests {
  private let remote = "192.0.2.80"

  private func run(
    _ arguments: String..., at socket: String, on screen: Screen
  ) async -> Int32 {
    await runConnctl(
      ["guard", self.remote] + arguments + ["--socket", socket], on: screen.console)
  }

  private func json(_ event: FlowEvent, _ generation: UInt64) -> String? {
    IPAddress(self.remote).flatMap { remote in
      JSON.flow(
        event, generation: generation, destination: remote, local: IPAddress("192.0.2.7"))
    }?.description
  }

  @Test("the path comes first, then invalidations; destroy ends it with 0")
  func destroy() async throws {
    var advice = InvalidationError.sample
    advice.severity = .advise
    let events: [(UInt64, FlowEvent)] = [
      (17, .path(.wlan)), (18, .invalidation(advice)), (19, .invalidation(.sample)),
    ]
    let stub = StubConnd(onGuard: { requests, writer in
      for try await request in requests {
        var flow = Connectivity_V1_Flow()
        flow.id = 1
        flow.remote = "192.0.2.80"
        // If the connection is dead, that is not an error of connd's.
        flow.existing = true
        #expect(request.add == flow)
        for (generation, event) in events {
          try await writer.write(.flow(generation: generation, event))
        }
      }
    })
    try await withDirectory { directory in
      let socket = "\(directory)/connd.sock"
      try await stub.serving(socket) {
        let screen = Screen()
        #expect(await self.run("--json", at: socket, on: screen) == 0)
        // The local address is that of the first path, because the user gave none.
        #expect(
          screen.outputLines == events.compactMap { self.json($1, $0) })
        #expect(screen.errors == "")
        let text = Screen()
        #expect(await self.run(at: socket, on: text) == 0)
        #expect(
          text.outputLines.first
            == "01:28:05.123  path              192.0.2.80: satisfied, wlan0 from 192.0.2.7")
      }
    }
  }

  @Test(
    "the link of a link-local address is the flow's, unless another one is given",
    arguments: [
      (["fe80::77%lo"], "lo"), (["[fe80::77%lo]:443"], "lo"),
      (["fe80::77", "--local", "[fe80::1%lo]:40000"], "lo"),
      (["fe80::77%1"], "lo"), (["fe80::77", "--local", "fe80::1%1"], "lo"),
      (["fe80::77%lo", "--interface", "wlan0"], "wlan0"), (["fe80::77"], ""),
    ])
  func links(arguments: [String], link: String) async throws {
    let stub = StubConnd(onGuard: { requests, writer in
      for try await request in requests {
        #expect(request.add.remote == "fe80::77")
        #expect(request.add.interface == link)
        try await writer.write(.flow(generation: 17, .invalidation(.sample)))
      }
    })
    try await withDirectory { directory in
      let socket = "\(directory)/connd.sock"
      try await stub.serving(socket) {
        let screen = Screen()
        let status = await runConnctl(
          ["guard"] + arguments + ["--socket", socket], on: screen.console)
        #expect(status == 0, "\(screen.errors)")
      }
    }
  }

  @Test("the index of a missing link is refused")
  func missingLink() async {
    let screen = Screen()
    let status = await runConnctl(
      ["guard", "fe80::77", "--local", "fe80::1%4294967295"], on: screen.console)
    #expect(status == 64)
    #expect(screen.errors.contains("there is no link with index 4294967295"))
  }

  @Test("explain of an address with a link → an error that names the command that uses the link")
  func explainedLink() async throws {
    for address in ["fe80::77%lo", "fe80::77%1"] {
      let screen = Screen()
      let status = await runConnctl(
        ["explain", address, "--socket", "/nonexistent"], on: screen.console(width: .max))
      #expect(status == 64)
      #expect(screen.errors.contains("connctl path fe80::77%"), "\(screen.errors)")
    }
  }

  @Test("the arguments become the flow's fields")
  func arguments() async throws {
    let stub = StubConnd(onGuard: { requests, writer in
      for try await request in requests {
        let flow = request.add
        #expect(flow.local == "192.0.2.7")
        #expect(flow.interface == "wlan0")
        #expect(flow.mark == 16)
        #expect(flow.forbidsExpensive && flow.forbidsConstrained)
        #expect(!flow.hasKnownPath && !flow.hasSinceGeneration)
        try await writer.write(.flow(generation: 17, .invalidation(.sample)))
      }
    })
    try await withDirectory { directory in
      let socket = "\(directory)/connd.sock"
      try await stub.serving(socket) {
        let screen = Screen()
        let status = await self.run(
          "--local", "192.0.2.7", "--interface", "wlan0", "--mark", "0x10", "--forbid-metered",
          "--forbid-constrained", "--json", at: socket, on: screen)
        #expect(status == 0)
        #expect(screen.outputLines == [self.json(.invalidation(.sample), 17)])
      }
    }
  }

  @Test(
    "I0 the ports are the flow's, and the protocol is TCP by default",
    arguments: [
      (["192.0.2.80:443", "--local", "192.0.2.7:40000"], "192.0.2.7:40000 192.0.2.80:443 6"),
      (["192.0.2.80", "--local", "192.0.2.7:40000"], "192.0.2.7:40000 192.0.2.80:- 6"),
      (["192.0.2.80:53", "--protocol", "udp"], "-:- 192.0.2.80:53 17"),
      (["192.0.2.80", "--protocol", "tcp"], "-:- 192.0.2.80:- 6"),
      (["192.0.2.80", "--local", "192.0.2.7"], "192.0.2.7:- 192.0.2.80:- -"),
      (
        ["[2001:db8::80]:443", "--local", "[2001:db8::7]:40000"],
        "2001:db8::7:40000 2001:db8::80:443 6"
      ),
      (["[2001:db8::80]", "--local", "2001:db8::7"], "2001:db8::7:- 2001:db8::80:- -"),
      (
        ["[::ffff:192.0.2.80]:443", "--local", "[::ffff:192.0.2.7]:40000"],
        "192.0.2.7:40000 192.0.2.80:443 6"
      ),
      (["::ffff:192.0.2.80", "--local", "192.0.2.7"], "192.0.2.7:- 192.0.2.80:- -"),
    ])
  func ports(arguments: [String], words: String) async throws {
    let stub = StubConnd(onGuard: { requests, writer in
      for try await request in requests {
        let flow = request.add
        func shown(_ number: UInt32, _ isSet: Bool) -> String { isSet ? "\(number)" : "-" }
        let local = flow.hasLocal ? flow.local : "-"
        #expect(
          "\(local):\(shown(flow.localPort, flow.hasLocalPort)) "
            + "\(flow.remote):\(shown(flow.remotePort, flow.hasRemotePort)) "
            + shown(flow.protocol, flow.hasProtocol) == words)
        try await writer.write(.flow(generation: 17, .invalidation(.sample)))
      }
    })
    try await withDirectory { directory in
      let socket = "\(directory)/connd.sock"
      try await stub.serving(socket) {
        let screen = Screen()
        let status = await runConnctl(
          ["guard"] + arguments + ["--json", "--socket", socket], on: screen.console)
        #expect(status == 0, "\(screen.errors)")
        #expect(screen.outputLines.count == 1)
      }
    }
  }

  @Test("C7 connd in another network namespace: one line that names both, and 69")
  func elsewhere() async throws {
    let own = try #require(ProcessNamespace.own)
    let stub = StubConnd(onGuard: { requests, writer in
      for try await _ in requests {
        var answer = Connectivity_V1_GuardResponse.flow(generation: 17, .invalidation(.sample))
        answer.networkNamespace = own + 1
        try await writer.write(answer)
      }
    })
    try await withDirectory { directory in
      let socket = "\(directory)/connd.sock"
      try await stub.serving(socket) {
        let screen = Screen()
        #expect(await self.run("--local", "192.0.2.7", at: socket, on: screen) == 69)
        #expect(screen.output == "")
        #expect(
          screen.errors == """
            connctl: connd watches the network namespace \(own + 1), and this process is in \(own): \
            run this command in connd's namespace, or a connd in this one

            """)
      }
    }
  }

  @Test("a flow that is dead from the start gets the obstacle as text; its JSON has connd's values")
  func obstacle() async throws {
    let dead = InvalidationError(
      reason: .sourceAddressLost, severity: .destroy,
      cause: ChangeCause(.registration, "diedBefore", interface: "wlan0", learntLate: true),
      path: .wlan)
    let stub = StubConnd(onGuard: { requests, writer in
      for try await _ in requests {
        try await writer.write(.flow(generation: 17, .invalidation(dead)))
      }
    })
    try await withDirectory { directory in
      let socket = "\(directory)/connd.sock"
      try await stub.serving(socket) {
        let arguments = ["guard", self.remote, "--local", "192.0.2.99", "--socket", socket]
        let text = Screen()
        #expect(await runConnctl(arguments, on: text.console(width: .max)) == 0)
        #expect(
          text.output.contains(
            "source address lost: 192.0.2.99 is not an address of this machine; now")
        )
        #expect(text.outputLines.count == 1)
        let json = Screen()
        #expect(await runConnctl(arguments + ["--json"], on: json.console) == 0)
        #expect(json.output.contains(#""change": "diedBefore""#))
      }
    }
  }

  @Test("the first of several addresses is used, in the family of the local address")
  func choice() {
    let addresses = ["2001:db8::80", "192.0.2.80", "192.0.2.81"].compactMap { IPAddress($0) }
    #expect(GuardCommand.choose(addresses, local: nil) == addresses[0])
    #expect(GuardCommand.choose(addresses, local: IPAddress("192.0.2.7")) == addresses[1])
    #expect(GuardCommand.choose([addresses[0]], local: IPAddress("192.0.2.7")) == nil)
  }

  @Test("connd refuses the flow: 64, with connd's text")
  func refusal() async throws {
    let stub = StubConnd(onGuard: { requests, writer in
      for try await _ in requests {
        let refusal = FlowRefusal.invalid("interface: there is no wlan9")
        try await writer.write(.flow(generation: 17, .refused(refusal)))
      }
    })
    try await withDirectory { directory in
      let socket = "\(directory)/connd.sock"
      try await stub.serving(socket) {
        let screen = Screen()
        #expect(await self.run("--interface", "wlan9", at: socket, on: screen) == 64)
        #expect(screen.output == "")
        #expect(
          screen.errors == "connctl: connd rejects the request: interface: there is no wlan9\n")
      }
    }
  }

  @Test("I7 a restart of connd: the flow is added again, with its last path")
  func restart() async throws {
    try await withDirectory { directory in
      let socket = "\(directory)/connd.sock"
      let seen = Gate()
      let screen = Screen()
      var console = screen.console
      let write = console.write
      console.write = {
        try write($0)
        seen.open()
      }
      let before = StubConnd(onGuard: { requests, writer in
        for try await _ in requests {
          try await writer.write(.flow(generation: 17, .path(.wlan)))
        }
      })
      let after = StubConnd(onGuard: { requests, writer in
        for try await request in requests {
          #expect(request.add.knownPath == Connectivity_V1_Path(.wlan))
          #expect(request.add.sinceGeneration == 17)
          #expect(request.add.local == "192.0.2.7")
          try await writer.write(.flow(generation: 23, .invalidation(.sample)))
        }
      })
      let program = try await before.serving(socket) { [console] in
        let program = Task {
          await runConnctl(
            ["guard", self.remote, "--json", "--socket", socket], on: console)
        }
        await seen.pass()
        return program
      }
      #expect(try await after.serving(socket) { await program.value } == 0)
      #expect(
        screen.outputLines == [
          self.json(.path(.wlan), 17), self.json(.invalidation(.sample), 23),
        ])
      let remarks = screen.errors.split(separator: "\n")
      #expect(remarks.first?.hasPrefix("connctl: connd went away (") == true)
      #expect(remarks.dropFirst() == ["connctl: connd is back"])
    }
  }
}
