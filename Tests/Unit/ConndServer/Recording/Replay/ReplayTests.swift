import Connectivity
import Glibc
import LinuxSupport
import Netlink
import TestKit
import TestTraits
import Testing

@testable import ConndServer

@Suite("Replay")
struct ReplayTests {
  private static let folder = Checkout.path("Tests/Fixtures/recordings")

  /// The names of all recordings.
  static let names: [String] = {
    let question = FileQuestion(.names, Self.folder)
    let names = (try? MachineFiles().answer(question).get()) ?? []
    let files = names.split(separator: 0).map { String(decoding: $0, as: UTF8.self) }
    return files.filter { $0.hasSuffix(".recording") }.map { String($0.dropLast(10)) }.sorted()
  }()

  @Test("the most frequent events are recorded")
  func recordings() {
    #expect(
      Set(Self.names).isSuperset(of: [
        "containers", "default-route", "failover", "flapping", "other-hotspot", "questions",
        "redial", "roam", "suspend", "tunnel", "uplink-lost", "vpn",
      ]))
  }

  static func bytes(_ name: String) throws -> [UInt8] {
    try contents(of: "\(Self.folder)/\(name)", max: 1 << 20)
  }

  private func replay(_ recording: Recording) throws -> (output: String, complaints: [String]) {
    var (output, complaints): (String, [String]) = ("", [])
    try Replay(recording, print: { output += $0 }, complain: { complaints.append($0) }).run()
    return (output, complaints)
  }

  @Test("a replayed recording gives the output of the day it was made", arguments: names)
  func again(_ name: String) throws {
    let told = try self.replay(Recording(Self.bytes("\(name).recording")))
    #expect(told.output == String(decoding: try Self.bytes("\(name).json"), as: UTF8.self))
    #expect(told.complaints.isEmpty)
  }

  @Test("a query without a recorded answer is reported with its turn, and finds nothing")
  func missing() throws {
    var recording = try Recording(Self.bytes("uplink-lost.recording"))
    recording.answers = Recording.Answers()
    let told = try self.replay(recording)
    #expect(
      told.complaints.contains { $0.hasPrefix("turn 0: RTM_GETROUTE has no recorded answer") })
    #expect(told.output.hasPrefix("{\"event\": \"snapshot\""))
    #expect(told.output.contains("\"category\": \"none\""))
  }

  @Test("the wall clock is read more often than recorded → it advances like the boot clock")
  func clocks() throws {
    var recording = try Recording(Self.bytes("uplink-lost.recording"))
    recording.turns = [.init(instants: [1_000_000_000, 3_000_000_000], times: [7_000_000])]
    let clock = ReplayedClock(tape: RecordingCursor(recording) { _ in })
    #expect(clock.now == Instant(sinceStart: .seconds(1)))
    #expect(clock.time == WallTime(microseconds: 7_000_000))
    #expect(clock.now == Instant(sinceStart: .seconds(3)))
    #expect(clock.time == WallTime(microseconds: 9_000_000))
  }

  @Test("D4 the processor time decides the order of the users' queries → replayed as recorded")
  func work() throws {
    var recording = try Recording(Self.bytes("uplink-lost.recording"))
    recording.turns = [.init(work: [5, 9]), .init(wake: RecordedWake(), work: [20])]
    let tape = RecordingCursor(recording) { _ in }
    let clock = ReplayedClock(tape: tape)
    // A version that reads it more often charges nothing for the rest.
    #expect([5, 9, 9].allSatisfy { clock.worked == .nanoseconds($0) })
    #expect(tape.advance() != nil)
    #expect([20, 20].allSatisfy { clock.worked == .nanoseconds($0) })
  }

  @Test("a list is replayed in as many datagrams as were recorded")
  func datagrams() throws {
    func message(_ payload: UInt8...) -> [UInt8] {
      [16 + UInt8(payload.count), 0, 0, 0, 16, 0, 0, 3, 7, 0, 0, 0, 0, 0, 0, 0] + payload
    }
    let first = message(1) + [0, 0, 0] + message(2, 2, 2, 2)
    let second = message(3, 3, 3, 3)
    var exchanges = Exchanges()
    var recording = try Recording(Self.bytes("uplink-lost.recording"))
    exchanges.begin(.linkDump, message(), 0, in: 0, &recording.answers)
    for datagram in [first, second] { exchanges.receive(.linkDump, .datagram(datagram)) }
    exchanges.finish(&recording.answers)

    let socket = ReplayedSocket(RecordingCursor(recording) { _ in }, .linkDump)
    try socket.bind()
    var request = NetlinkMessage(bytes: message())
    request.sequence = 99
    try request.bytes.withUnsafeBytes { try socket.send($0, operation: "RTM_GETLINK") }
    for datagram in [first, second] {
      guard case .datagram(let bytes) = socket.receive(flags: 0) else {
        Issue.record("no datagram")
        return
      }
      let expected = NetlinkMessage.messages(of: datagram).flatMap { recorded in
        var message = recorded
        (message.sequence, message.port) = (99, socket.port)
        return message.padded
      }
      #expect(Array(bytes) == expected)
    }
  }

  @Test("a link that nl80211 was never asked about is not Wi-Fi", arguments: SocketRole.allCases)
  func notWireless(role: SocketRole) {
    let request = [20, 0, 0, 0, 32, 0] + [UInt8](repeating: 0, count: 14)
    let answer = NetlinkMessage(bytes: request).notThere(role).bytes
    let code = role == .wirelessRequester ? ENODEV : ENOENT
    #expect(answer[16..<20].elementsEqual(withUnsafeBytes(of: -code, Array.init)))
  }

  @Test("a connd that queries less, or in another order, gets the same answers")
  func otherQuestions() throws {
    var recording = try Recording(Self.bytes("questions.recording"))
    // Without the clients' requests the kernel is queried less, and at other moments.
    for turn in recording.turns.indices { recording.turns[turn].inputs = [] }
    let told = try self.replay(recording)
    let lines = told.output.split(separator: "\n")
    #expect(lines.contains { $0.contains("\"to\": \"wifi\"") })
    #expect(lines.contains { $0.contains("\"event\": \"dns\"") })
    #expect(told.complaints.isEmpty)
  }

  @Test(
    "a recording that ends early says so, and its replay is the beginning of the whole",
    .blocking, arguments: names)
  func cut(_ name: String) throws {
    let bytes = try Self.bytes("\(name).recording")
    let whole = try self.replay(Recording(bytes))
    let records = Self.records(bytes).map(RecordFrame.framed)
    var generator = SeededGenerator(seed: 21)
    func check(_ bytes: [UInt8], isWhole: Bool = false) throws {
      let recording = try Recording(bytes)
      #expect((recording.end == nil) == isWhole)
      let told = try self.replay(recording)
      #expect(whole.output.hasPrefix(told.output) && told.complaints.isEmpty)
    }
    for _ in 0..<40 {
      // Between two records: only the missing end of the turn shows it.
      let count = generator.number(1...records.count)
      let isWhole = count > 2 && records[count - 1] == records.last
      try check(
        RecordingHeader.line + records.prefix(count).joined(), isWhole: isWhole || count == 1)
      // Within a record.
      let header = RecordingHeader.line.count + records[0].count
      let part = Array(bytes.prefix(generator.number((header + 1)...(bytes.count - 1))))
      if case .torn = try Recording(part).end { try check(part) }
    }
  }

  @Test(
    "any corrupted recording → refused with a reason, or replayed to its end with valid events",
    .timeLimit(.minutes(5)), arguments: names)
  func hostile(_ name: String) throws {
    let whole = try Self.bytes("\(name).recording")
    var generator = SeededGenerator(seed: name.utf8.reduce(0) { $0 &* 31 &+ UInt64($1) })
    let records = Self.records(whole)
    var played = 0
    for round in 0..<60 {
      let bytes =
        switch round % 4 {
        case 0: Array(whole.prefix(generator.number(0...whole.count)))
        case 1: Self.flipped(whole, generator.number(1...8), &generator)
        default: Self.rewritten(records, &generator)
        }
      do throws(RecordingError) {
        let recording = try Recording(bytes)
        var (output, hasEnded) = ("", recording.turns.isEmpty)
        try Replay(recording, print: { output += $0 }, complain: { _ in })
          .run(atEnd: { _, _ in hasEnded = true })
        #expect(hasEnded)
        Self.check(output)
        if !output.isEmpty { played += 1 }
      } catch {
        #expect(!error.description.isEmpty)
      }
    }
    // Most of the altered records leave a recording that can be replayed.
    #expect(played >= 20)
  }

  /// Checks that the events are possible for a subscriber: first a snapshot, then changes
  /// with growing generations.
  private static func check(_ output: String) {
    let lines = output.split(separator: "\n")
    #expect(output.isEmpty || output.hasSuffix("\n"))
    var last: UInt64?
    for (place, line) in lines.enumerated() {
      let word = line.firstMatch(of: #/^\{"event": "([a-z]+)", "generation": (\d+),.*\}$/#)
      guard let word, let generation = UInt64(word.2) else {
        Issue.record("not an event: \(line)")
        return
      }
      #expect((word.1 == "snapshot") == (place == 0), "\(line)")
      #expect(last.map { $0 < generation } ?? true, "\(line)")
      last = generation
    }
  }

  private static func flipped(
    _ bytes: [UInt8], _ count: Int, _ generator: inout SeededGenerator
  ) -> [UInt8] {
    guard !bytes.isEmpty else { return bytes }
    var bytes = bytes
    for _ in 0..<count {
      bytes[generator.number(0...bytes.count - 1)] ^= 1 << UInt8(generator.number(0...7))
    }
    return bytes
  }

  static func records(_ bytes: [UInt8]) -> [[UInt8]] {
    var rest = bytes.dropFirst(RecordingHeader.line.count)
    var records: [[UInt8]] = []
    while let record = RecordFrame.take(&rest), let record { records.append(record) }
    return records
  }

  /// Changes that no checksum detects: records that are altered, missing or duplicated.
  static func rewritten(
    _ records: [[UInt8]], _ generator: inout SeededGenerator
  ) -> [UInt8] {
    var bytes = RecordingHeader.line
    for (place, record) in records.enumerated() {
      var copies = [record]
      if generator.oneIn(30) {
        switch generator.number(0...3) {
        case 0 where place > 0: copies = []
        case 1: copies.append(generator.pick(records))
        default: copies = [self.flipped(record, generator.number(1...3), &generator)]
        }
      }
      bytes += copies.flatMap(RecordFrame.framed)
    }
    return bytes
  }
}
