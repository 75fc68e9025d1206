import Connectivity
import ConnectivityProtobuf
import ConnectivityRules
import Glibc
import LinuxSupport
import Logging
import Netlink
import TestKit
import Testing

@testable import ConndServer

@Suite("Recordings")
struct RecordingTests {
  private let directory: TemporaryDirectory
  private var path: String { "\(self.directory.path)/it.recording" }

  init() throws {
    self.directory = try TemporaryDirectory()
  }

  private static let header = RecordingHeader(
    configuration: "prefer: ipv6\n", watchdogTimeout: .seconds(3), restored: Store().snapshot)

  private func recorder(largest: Int = 1 << 20) throws -> Recorder {
    let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    return try Recorder(path: self.path, Self.header, largest: largest, logger: logger)
  }

  private func read() throws -> Recording {
    try Recording(contents(of: self.path, max: 1 << 20))
  }

  @Test(
    "each item is unchanged after writing and reading",
    arguments: [
      .turn(
        .with {
          $0.hasMessages = true
          $0.slept = 5
        }), .turn(.with { $0.sources = UInt32(SourceSet.dns.rawValue) }), .now(.max / 2), .time(1),
      .worked(0), .bound(.with { $0.port = 4711 }), .option(.with { $0.error = ENOMEM }),
      .sent(.with { $0.datagram = [1, 2, 3] }), .readable(false), .readable(true), .full(true),
      .opened(.with { $0.operation = "open a netlink socket" }), .turnEnded(true),
      .input(.with { $0.dismiss = 3 }),
    ] as [RecordedItem.OneOf_Kind])
  func items(_ kind: RecordedItem.OneOf_Kind) throws {
    let item = RecordedItem(kind)
    let bytes = item.serializedBytes()
    let read = try RecordedItem(serializedBytes: bytes)
    #expect(read == item && read.isPossible)
    #expect(throws: ProtobufError.self) { try RecordedItem(serializedBytes: bytes + [0]) }
    #expect(throws: ProtobufError.self) { try RecordedItem(serializedBytes: bytes.dropLast()) }
  }

  @Test(
    "an item of an unknown kind, or with an impossible time → not valid",
    arguments: [
      [], [0x98, 6, 1], RecordedItem(.now(-1)).serializedBytes(),
      RecordedItem(.time(.max)).serializedBytes(), RecordedItem(.worked(.max)).serializedBytes(),
    ] as [[UInt8]])
  func impossible(bytes: [UInt8]) throws {
    #expect(try !RecordedItem(serializedBytes: bytes).isPossible)
  }

  @Test(
    "each result of reading a socket is unchanged after writing and reading",
    arguments: [
      .datagram([]), .datagram([1, 2]), .truncated(size: 70_000), .foreign, .nothing, .overrun,
      .failed(error: EBADF),
    ] as [RecordedReception])
  func receptions(_ reception: RecordedReception) throws {
    for role in SocketRole.allCases {
      let bytes = reception.message(on: role).serializedBytes()
      let message = try Connd_Recording_V2_Reception(serializedBytes: bytes)
      #expect(message.socket.role == role && RecordedReception(message) == reception)
      #expect(RecordedRole.allCases.contains(message.socket))
    }
  }

  @Test("each query to a file is unchanged after writing and reading")
  func files() {
    for kind in FileQuestion.Kind.allCases {
      let question = FileQuestion(kind, "/sys/class/net/lo/ifindex")
      for answer in [.success(Array("1\n".utf8)), .failure(SystemError(ENOENT))] as [FileAnswer] {
        let message = Connd_Recording_V2_File(question, answer)
        #expect(message.question == question && message.answer == answer)
      }
    }
    #expect(Connd_Recording_V2_File.with { $0.kind = 99 }.question == nil)
  }

  private func costs(_ request: CostRequest) -> Input {
    .query(KernelQuery(id: 5, account: Account(number: 1000), kind: .costs(request, .unheard)))
  }

  @Test("facts are unchanged after writing and reading")
  func facts() throws {
    let links = [
      "wwan0": ModemLink(
        isSuspended: true, generation: .fifth, isRoaming: true,
        mobileOperator: MobileOperator(code: "26201", name: "Example")), "ppp0": .silent,
    ]
    let metering = MeteringReports(
      manager: ["a": .unknown, "b": .yes, "c": .no, "d": .guessYes, "e": .guessNo], phones: ["x"])
    for update in [
      .modems([:]), .modems(links), .metering(MeteringReports()),
      .metering(MeteringReports(phones: ["usb0", "wlan0"])), .metering(metering), .checks([:]),
      .checks(["a": .init(ipv4: .portal), "b": .init(ipv4: .full, ipv6: .limited)]),
      .portals(["a": "https://example.com/"]),
      .advertisement(PortalAdvertisement(link: 7, portal: "https://example.com/")),
    ] as [FactUpdate] {
      let facts = try #require(RecordedFacts(update, afterLinks: true))
      let read = try RecordedFacts(serializedBytes: facts.serializedBytes())
      #expect(read.update == update && read.afterLinks)
    }
    #expect(RecordedFacts(.dns(DNSSettings()), afterLinks: false) == nil)
  }

  @Test("K5 the link on a serial line is recorded → a replay finds it without the files")
  func serialLine() throws {
    let (run, sysfs) = ("\(self.directory.path)/run", "\(self.directory.path)/sys")
    try Command.run(["mkdir", "-p", "\(run)/lock", "\(sysfs)/class/net/ppp0"])
    try self.directory.write("4711\n", to: "run/lock/LCK..ttyUSB2")
    try self.directory.write("4711\n", to: "run/ppp0.pid")
    do {
      let recorder = try self.recorder()
      let files = RecordedFiles(files: MachineFiles(root: getuid()), recorder: recorder)
      #expect(SerialLines(root: sysfs, run: run, from: files).link(on: "ttyUSB2") == "ppp0")
      recorder.flush()
    }
    try Command.run(["rm", "-r", run, sysfs])
    var complaints: [String] = []
    let tape = RecordingCursor(try self.read()) { complaints.append($0) }
    let lines = SerialLines(root: sysfs, run: run, from: ReplayedFiles(tape: tape))
    #expect(lines.link(on: "ttyUSB2") == "ppp0")
    #expect(complaints.isEmpty)
    #expect(lines.link(on: "ttyUSB3") == nil)
    #expect(complaints.count == 1)
  }

  @Test("clients' requests are unchanged after writing and reading")
  func inputs() throws {
    let remote = try #require(IPAddress("203.0.113.9"))
    var destination = Destination(remote, uid: 1000, mark: 7, source: IPAddress("192.0.2.7"))
    destination.outLink = 3
    destination.transport = Transport(6, localPort: 4711, remotePort: 443)
    var path = KernelPath.unknown
    path.chain = [KernelPath.Link(index: 2, name: "eth0")]
    let key = FlowTable.Key(mailbox: 1, id: 2)
    var registration = FlowTable.Registration(
      key: key, flow: Flow(destination, local: IPAddress("192.0.2.7"), forbidsExpensive: true))
    (registration.knownPath, registration.sinceGeneration) = (path, 17)
    let query = KernelQuery(
      id: 5, account: Account(number: 1000), kind: .explain(destination, links: [2, 7], .unheard))
    let judged = KernelQuery(
      id: 6, account: Account(number: 1000), kind: .judge([registration], .unheard))
    for input in [
      .configure(Configuration(), .unheard), .query(query), .query(judged),
      .drop(5, of: Account(number: 1000)),
      .unwatch(destination, watcher: 3), .dismiss(1), .flow(.add(registration)),
      .flow(.remove(key)), self.costs(.list), self.costs(.forget(name: "Home", user: 7)),
      self.costs(.set(.init(target: .link("eth0"), expensive: .off, end: .boot, user: 0))),
      self.costs(
        .set(
          .init(
            target: .network("Home"), constrained: .on, expensive: .auto,
            end: .after(.seconds(5)), user: 7))),
    ] as [Input] {
      let message = try #require(RecordedInput(input))
      let bytes = message.serializedBytes()
      let read = try RecordedInput(serializedBytes: bytes)
      #expect(read.input.flatMap { RecordedInput($0) } == message)
      // A part is another request, or invalid.
      for length in bytes.indices {
        _ = try? RecordedInput(serializedBytes: Array(bytes.prefix(length))).input
      }
    }
    #expect(RecordedInput(.awaitFirstReading(.unheard)) == nil)
  }

  @Test(
    "an invalid request → ignored",
    arguments: [
      .with { $0.configure = "no configuration" }, .with { $0.query.id = 1 },
      .with { $0.query.path.address = [1, 2] }, .with { $0.query.attempt.outcome = 1 },
      .with { $0.query.costs.set.user = 1 }, .with { $0.query.costs.assist.value = 9 },
      .with { $0.add.key.id = 1 }, RecordedInput(),
      .with {
        $0.unwatch.destination.address = [192, 0, 2, 1]
        $0.unwatch.destination.source = Array(repeating: 1, count: 16)
      },
    ] as [RecordedInput])
  func invalid(_ message: RecordedInput) { #expect(message.input == nil) }

  @Test("a file is read as written, header and turns")
  func roundTrip() throws {
    do {
      let recorder = try self.recorder()
      recorder.note(.now(1))
      recorder.begin(.init(hasMessages: true, slept: .seconds(1)))
      recorder.note(.now(2))
      recorder.note(.worked(3))
      recorder.note(.received(RecordedReception.overrun.message(on: .listener)))
      recorder.flush()
    }
    let recording = try self.read()
    #expect(recording.header == Self.header)
    #expect(recording.end == nil)
    #expect(recording.turns.map(\.instants) == [[1], [2]])
    #expect(recording.turns.map(\.work) == [[], [3]])
    #expect(recording.turns[1].wake?.slept == 1_000_000_000)
    #expect(recording.turns[1].heard == [.listener: [.overrun]])
  }

  @Test("a recording stops at its size limit, at the end of a turn")
  func bound() throws {
    do {
      let recorder = try self.recorder(largest: 2000)
      for turn in 1...100 {
        recorder.begin(.init(hasMessages: true, slept: nil))
        for _ in 0..<10 { recorder.note(.now(Int64(turn))) }
        recorder.flush()
      }
    }
    let recording = try self.read()
    #expect(recording.end == .full)
    #expect(recording.turns.dropFirst().allSatisfy { $0.instants.count == 10 })
    #expect(recording.turns.count > 3)
    #expect(try contents(of: self.path, max: 2000).count > 1500)
  }

  @Test("a path that is not a regular file is not recorded into")
  func pipe() throws {
    #expect(mkfifo(self.path, 0o600) == 0)
    #expect(throws: SystemError.self) { try self.recorder() }
  }

  @Test(
    "an incomplete turn is left out, a damaged record is named by its offset, and a foreign file is refused"
  )
  func damage() throws {
    do {
      let recorder = try self.recorder()
      for turn in 1...3 {
        recorder.begin(.init(hasMessages: true, slept: nil))
        recorder.note(.now(Int64(turn)))
        recorder.flush()
      }
    }
    let whole = try contents(of: self.path, max: 1 << 20)
    let record = RecordFrame.framed(RecordedItem.endOfTurn.serializedBytes()).count
    let torn = try Recording(whole.dropLast())
    #expect(torn.end == .torn(offset: whole.count - record))
    #expect(torn.turns.map(\.instants) == [[], [1], [2]])
    let unfinished = try Recording(whole.dropLast(record))
    #expect(unfinished.end == .unfinished)
    #expect(unfinished.turns.map(\.instants) == [[], [1], [2]])
    var flipped = whole
    flipped[whole.count - 1] ^= 1
    #expect(try Recording(flipped).end == .damaged(offset: whole.count - record))
    let later = try #require(RecordingHeader.line.firstIndex(of: UInt8(ascii: "2")))
    for version in "13" {
      flipped = whole
      flipped[later] = try #require(version.asciiValue)
      let error = #expect(throws: RecordingError.self) { try Recording(flipped) }
      #expect(
        error?.description.hasPrefix("is a recording in the format of another version") == true)
    }
    for length in 0..<(RecordingHeader.line.count + 12) {
      #expect(throws: RecordingError.self) { try Recording(Array(whole.prefix(length))) }
    }
  }

  @Test(
    "a query is answered from its turn, else from the last answer before, else from the first after"
  )
  func answers() {
    var table = AnswerTable<String, Int>()
    for (answer, turn) in [(1, 3), (2, 3), (3, 7)] { table.append(answer, to: "a", in: turn) }
    #expect(table.answer("b", in: 3) == nil)
    #expect([0, 3, 3, 3, 5, 7, 9].map { table.answer("a", in: $0) } == [1, 1, 2, 2, 2, 3, 3])
  }

  @Test("answers are matched to requests by their sequence numbers, whatever these are")
  func exchanges() throws {
    var answers = Recording.Answers()
    var exchanges = Exchanges()
    exchanges.ports[.requester] = 9
    exchanges.begin(.requester, message(5, port: 0, 1) + message(6, port: 0, 2), 0, in: 0, &answers)
    exchanges.receive(.requester, .datagram(message(4, 70)))
    exchanges.receive(.requester, .datagram(message(6, 72)))
    exchanges.receive(.requester, .datagram(message(5, port: 8, 73)))
    exchanges.receive(.requester, .datagram(message(5, 71)))
    exchanges.receive(.requester, .overrun)
    exchanges.finish(&answers)
    for (asked, answer) in [(1, 71), (2, 72)] as [(UInt8, UInt8)] {
      let request = NetlinkMessage(bytes: message(99, port: 3, asked))
      let found = answers.requests.answer(request.question(.requester), in: 0)
      #expect(found == [.datagram(message(asked == 1 ? 5 : 6, answer))])
      #expect(answers.requests.answer(request.question(.wirelessRequester), in: 0) == nil)
    }
  }

  @Test("K2 a query sent together with the wait for changes fails → it fails in a replay, too")
  func failure() throws {
    var answers = Recording.Answers()
    var exchanges = Exchanges()
    exchanges.ports[.requester] = 9
    exchanges.begin(
      .requester, message(0, port: 0, 1) + message(5, port: 0, 2), 0, in: 0, &answers)
    exchanges.receive(.requester, .datagram(message(0, 70)))
    exchanges.receive(.requester, .overrun)
    exchanges.finish(&answers)
    let request = NetlinkMessage(bytes: message(99, port: 3, 2))
    let found = answers.requests.answer(request.question(.requester), in: 0)
    #expect(found == [.failed(.overrun)])
  }
}

/// A request or answer that ends with the given byte.
private func message(_ sequence: UInt32, port: UInt32 = 9, _ last: UInt8) -> [UInt8] {
  var message = NetlinkMessage(bytes: [20, 0, 0, 0, 26, 0, 1, 0] + .init(repeating: 0, count: 12))
  (message.sequence, message.port) = (sequence, port)
  return message.bytes.dropLast() + [last]
}
