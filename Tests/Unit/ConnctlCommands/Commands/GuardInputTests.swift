import Connectivity
import ConnectivityJSON
import ConnectivityMonitor
import ConnectivityProtocol
import GRPCCore
import Glibc
import Synchronization
import Testing

@testable import ConnctlCommands

/// A script that writes to `connctl guard --stdin` and reads its lines.
private final class Script: Sendable {
  let screen = Screen()
  /// The reading end stays open, because the command's thread may outlive the command.
  private let ends: (reading: CInt, writing: CInt)
  private let lines: AsyncStream<String>
  private let console: Console

  init() {
    var ends: [CInt] = [-1, -1]
    _ = pipe(&ends)
    self.ends = (ends[0], ends[1])
    let (lines, line) = AsyncStream.makeStream(of: String.self)
    self.lines = lines
    var console = self.screen.console
    let write = console.write
    console.input = ends[0]
    console.write = {
      try write($0)
      line.yield($0)
    }
    self.console = console
  }

  func write(_ text: String) {
    let bytes = Array(text.utf8)
    #expect(Glibc.write(self.ends.writing, bytes, bytes.count) == bytes.count)
  }

  /// Waits for this number of lines.
  func read(_ count: Int) async {
    var rest = count
    for await _ in self.lines {
      rest -= 1
      if rest == 0 { return }
    }
  }

  func end() { close(self.ends.writing) }

  /// Runs the command, and its script beside it.
  func run(
    _ arguments: String..., socket: String, _ body: @Sendable () async throws -> Void
  ) async throws -> Int32 {
    let words = ["guard", "--stdin", "--socket", socket] + arguments
    async let status = runConnctl(words, on: self.console)
    try await body()
    return await status
  }
}

@Suite("connctl guard --stdin", .timeLimit(.minutes(1)))
struct GuardInputTests {
  private let ends = "203.0.113.9:443 192.0.2.7:4711"

  /// A connd that reports a path for each flow, and destroys those with the remote port 2. It
  /// records the requests.
  private func stub(_ requests: RequestLog, generation: UInt64 = 17) -> StubConnd {
    StubConnd(onGuard: { stream, writer in
      for try await request in stream {
        requests.append(request)
        guard case .add(let flow)? = request.request else { continue }
        let event: FlowEvent
        switch flow.remotePort {
        case 2: event = .invalidation(.sample)
        case 3: event = .refused(.invalid("mark: no"))
        default: event = .path(.wlan)
        }
        try await writer.write(.flow(flow.id, generation: generation, event))
      }
    })
  }

  private final class RequestLog: Sendable {
    private let all = Mutex<[Connectivity_V1_GuardRequest]>([])
    func append(_ request: Connectivity_V1_GuardRequest) {
      self.all.withLock { $0.append(request) }
    }
    var added: [Connectivity_V1_Flow] {
      self.all.withLock {
        $0.compactMap { if case .add(let flow)? = $0.request { flow } else { nil } }
      }
    }
  }

  private func json(_ event: FlowEvent, _ generation: UInt64, _ id: UInt64, _ name: String?)
    -> String?
  {
    guard let remote = IPAddress("203.0.113.9") else { return nil }
    return JSON.flow(
      event, generation: generation, destination: remote, local: IPAddress("192.0.2.7"))?
      .appending(["id": .number(id), "name": .string(name)]).description
  }

  @Test("lines become flows; events have the id and the name; the end of the input ends with 0")
  func events() async throws {
    let requests = RequestLog()
    try await withDirectory { directory in
      let socket = "\(directory)/connd.sock"
      try await self.stub(requests).serving(socket) {
        let script = Script()
        let status = try await script.run("--mark", "7", socket: socket) {
          script.write("+9 \(self.ends) a database\n+5 203.0.113.9:2 192.0.2.7:4712\n")
          await script.read(2)
          script.write("-5\n-9\n-9\n")
          script.end()
        }
        #expect(status == 0)
        #expect(
          script.screen.outputLines == [
            self.json(.path(.wlan), 17, 9, "a database"),
            self.json(.invalidation(.sample), 17, 5, nil),
          ])
        #expect(script.screen.errors == "")
      }
    }
    let flow = try #require(requests.added.first)
    #expect(flow.remote == "203.0.113.9" && flow.remotePort == 443 && flow.protocol == 6)
    #expect(flow.local == "192.0.2.7" && flow.localPort == 4711 && flow.mark == 7)
    // The guard cannot ask the peer (E4).
    #expect(flow.question == .unspecified)
    #expect(requests.added.count == 2)
  }

  @Test("malformed lines and refusals are reported, and the other flows go on")
  func errors() async throws {
    let requests = RequestLog()
    try await withDirectory { directory in
      let socket = "\(directory)/connd.sock"
      try await self.stub(requests).serving(socket) {
        let script = Script()
        let status = try await script.run(socket: socket) {
          script.write("nonsense\n+1 \(self.ends)\n")
          await script.read(2)
          script.write(String(repeating: "x", count: 5000) + "\n+2 203.0.113.9 192.0.2.7:1\n")
          script.write("+3 203.0.113.9:3 192.0.2.7:4712 name\n")
          await script.read(3)
          script.write("+4 \(self.ends)\n")
          await script.read(1)
          script.end()
        }
        #expect(status == 0)
        let output = script.screen.outputLines.map { $0.replacing("null", with: "-") }
        for line in [
          #"{"event": "error", "message": "expected +<id> <remote> <local> [<name>], or -<id>", "id": -, "name": -}"#,
          #"{"event": "error", "message": "a line has more than 1024 bytes", "id": -, "name": -}"#,
          #"{"event": "error", "message": "“203.0.113.9” has no port", "id": 2, "name": -}"#,
          #"{"event": "error", "message": "connd rejects the connection: mark: no", "id": 3, "name": "name"}"#,
        ] { #expect(output.contains(line), "\(line): \(output)") }
        #expect(output.count == 6)
        #expect(script.screen.errors.contains("connctl: connection 3: connd rejects"))
        #expect(script.screen.errors.split(separator: "\n").count == 4)
      }
    }
    #expect(requests.added.count == 3)
  }

  @Test("I7 without connd: one message; after its start and restart, flows are registered again")
  func restart() async throws {
    let (first, second) = (RequestLog(), RequestLog())
    try await withDirectory { directory in
      let socket = "\(directory)/connd.sock"
      let script = Script()
      let status = try await script.run(socket: socket) {
        script.write("+1 \(self.ends)\n+2 \(self.ends)\n")
        try await self.stub(first).serving(socket) { await script.read(2) }
        try await self.stub(second, generation: 23).serving(socket) { await script.read(2) }
        script.end()
      }
      #expect(status == 0)
      let remarks = script.screen.errors.split(separator: "\n")
      // The command may have looked for connd before the first start, and after the last end.
      #expect(remarks.count { $0.contains("waiting for connd (") } <= 1, "\(remarks)")
      #expect((1...2).contains(remarks.count { $0.contains("connd went away (") }), "\(remarks)")
      #expect((1...2).contains(remarks.count { $0 == "connctl: connd is back" }), "\(remarks)")
    }
    #expect(second.added.allSatisfy { $0.hasKnownPath && $0.sinceGeneration == 17 })
    #expect(second.added.count == 2)
  }

  @Test("C7 connd in another network namespace: 69")
  func elsewhere() async throws {
    let own = try #require(ProcessNamespace.own)
    let stub = StubConnd(onGuard: { requests, writer in
      for try await request in requests {
        var answer = Connectivity_V1_GuardResponse.flow(
          request.add.id, generation: 17, .invalidation(.sample))
        answer.networkNamespace = own + 1
        try await writer.write(answer)
      }
    })
    try await withDirectory { directory in
      let socket = "\(directory)/connd.sock"
      try await stub.serving(socket) {
        let script = Script()
        let status = try await script.run(socket: socket) { script.write("+1 \(self.ends)\n") }
        script.end()
        #expect(status == 69)
        #expect(script.screen.output == "")
        #expect(script.screen.errors.contains("run this command in connd's namespace"))
      }
    }
  }

  @Test("the reader of the output is gone: 0; standard input cannot be read: 1")
  func closed() async throws {
    let screen = Screen(lines: 0)
    var console = screen.console
    var ends: [CInt] = [-1, -1]
    #expect(pipe(&ends) == 0)
    #expect(write(ends[1], "x\n", 2) == 2)
    console.input = ends[0]
    #expect(await runConnctl(["guard", "--stdin", "--socket", "/nonexistent"], on: console) == 0)
    console.input = ends[1]
    #expect(await runConnctl(["guard", "--stdin", "--socket", "/nonexistent"], on: console) == 1)
    #expect(screen.errors.contains("cannot read standard input: Bad file descriptor"))
    for end in ends { close(end) }
  }
}
