import Connectivity
import ConnectivityProtocol
import ConnectivityRules
import GRPCCore
import LinuxSupport
import Synchronization
import Testing

@testable import ConndServer
@testable import Netlink

@Suite("The sockets of a diagnosis")
struct SocketSamplerTests {
  private static func sample(_ number: Int, user: UInt32 = 1000) throws -> SocketSample {
    SocketSample(
      cookie: UInt64(number), inode: UInt64(number), user: user,
      source: try #require(IPAddress("192.0.2.7")), sourcePort: UInt16(number % 60_000),
      host: try #require(IPAddress("203.0.113.9")), port: 443,
      tcp: SocketSample.TCPState(received: 1))
  }

  private static func part(_ samples: [SocketSample], listening: Set<UInt16> = [])
    -> SampleDump.Part
  {
    var part = SampleDump.Part()
    (part.samples, part.listening) = (samples, listening)
    return part
  }

  private static func compared(_ subject: DiagnosisSubject) -> ComparedSockets {
    ComparedSockets(subject) { Account(number: $0) }
  }

  @Test("D4 users have any number of sockets → a bounded number is compared")
  func bounded() throws {
    var sockets = Self.compared(DiagnosisSubject(user: 1000))
    for user: UInt32 in 1000..<1020 {
      let samples = try (0..<3000).map { try Self.sample(Int(user) * 10_000 + $0, user: user) }
      sockets.addFirst(Self.part(samples))
    }
    #expect(sockets.count == ComparedSockets.maxSockets && sockets.isIncomplete)
    // Sockets that are compared move from one collection to the other.
    let again = try (0..<3000).map { try Self.sample(10_000_000 + $0) }
    sockets.addSecond(Self.part(again))
    #expect(sockets.count == ComparedSockets.maxSockets)
    #expect(sockets.findings.count == ComparedSockets.maxOfSubject)
    #expect(!sockets.findings.contains { !$0.isSubject })
  }

  @Test("D4 Q7 a server has many quiet sockets → they are counted, and hide no other")
  func quiet() throws {
    var quiet = try (1...3000).map { try Self.sample($0) }
    for place in quiet.indices { quiet[place].tcp?.silence = .seconds(60) }
    let busy = try Self.sample(5000)
    var heard = busy
    heard.tcp?.received = 2
    var sockets = Self.compared(DiagnosisSubject(user: 1000))
    sockets.addFirst(Self.part(quiet + [busy]))
    // A quiet socket may be heard between the samples.
    quiet[7].tcp?.silence = .milliseconds(300)
    sockets.addSecond(Self.part(quiet + [heard]))
    #expect(sockets.quiet == 2999 && !sockets.isIncomplete)
    #expect(sockets.findings.map(\.behaviour) == [.heard(isLossy: false), .heard(isLossy: false)])
  }

  @Test("D4 the cost of a socket covers what is kept of it")
  func cost() {
    // A dictionary may be half empty.
    let first = 2 * MemoryLayout<(UInt64, SocketSample.TCPState)>.stride
    let found = 2 * MemoryLayout<SocketFinding>.stride
    #expect(max(first, found) <= SocketSampler.costOfSocket, "\(first), \(found)")
  }

  @Test("Q7 only the caller's sockets are in question, root's caller asks about all")
  func subjects() throws {
    let samples = [try Self.sample(1), try Self.sample(2, user: 1001)]
    for (user, count) in [(1000, 1), (nil, 2)] as [(UInt32?, Int)] {
      var sockets = Self.compared(DiagnosisSubject(user: user))
      sockets.addFirst(Self.part(samples))
      sockets.addSecond(Self.part(samples, listening: [1]))
      #expect(sockets.findings.filter(\.isSubject).count == count)
      #expect(sockets.findings.map(\.person) == [1000, 1001])
      #expect(sockets.findings.map(\.isIncoming) == [true, false])
    }
    // The users of the account of unknown users may be strangers to each other.
    var strangers = ComparedSockets(DiagnosisSubject()) { _ in .unknown }
    strangers.addSecond(Self.part(samples))
    #expect(strangers.findings.map(\.person) == [1000, 1001])
    let subject = DiagnosisSubject(user: 1000, sockets: [2])
    #expect(samples.filter(subject.contains).isEmpty)
  }

  @Test("Q7 a diagnosis reads TCP twice and DNS at each interval, and asks before each part")
  func reads() async throws {
    let kinds = Mutex<[String]>([])
    let sample = try Self.sample(1)
    var sampler = SocketSampler()
    sampler.failedRetransmissions = { UInt64(kinds.withLock { $0.count }) }
    sampler.begin = { kind in
      kinds.withLock { if case .tcp = kind { $0.append("tcp") } else { $0.append("udp") } }
      var parts = [Self.part([sample])]
      return { parts.popLast() }
    }
    var waits = 0
    var keeps = 0
    let result = try await sampler.sample(
      into: Self.compared(DiagnosisSubject(user: 1000)), servers: [], wait: { waits += 1 },
      keep: { _ in keeps += 1 })
    let udp = Array(repeating: "udp", count: SocketSampler.intervals + 1)
    #expect(kinds.withLock { $0 } == ["tcp"] + udp + ["tcp"])
    #expect(waits == SocketSampler.intervals && keeps == udp.count + 2)
    #expect(result.failedRetransmissions == UInt64(udp.count + 2))
    #expect(result.sockets.findings.count == 1)
    #expect(result.names.waiting == [sample.host])
    await #expect(throws: CancellationError.self) {
      _ = try await sampler.sample(
        into: Self.compared(DiagnosisSubject()), servers: [], wait: { throw CancellationError() },
        keep: { _ in })
    }
  }

  @Test("Q7 the counter of retransmissions that failed is found by its name")
  func counter() {
    let text = """
      TcpExt: SyncookiesSent TCPRetransFail TCPRcvCoalesce
      TcpExt: 1 42 3
      IpExt: InNoRoutes
      IpExt: 4

      """
    #expect(RetransmissionCounter.value(in: text) == 42)
    for broken in ["", "TcpExt: A\nTcpExt: 1\n", "TcpExt: TCPRetransFail\nTcpExt:\n"] {
      #expect(RetransmissionCounter.value(in: broken) == nil)
    }
    #expect(RetransmissionCounter.read("/no/such/file") == nil)
  }

  @Test("D4 D8 a request with wrong or too many values → INVALID_ARGUMENT")
  func requests() throws {
    typealias Request = Connectivity_V1_DiagnoseRequest
    let wrong: [(inout Request) -> Void] = [
      { $0.hosts = ["example.com"] }, { $0.hosts = ["::"] }, { $0.port = 65_536 },
      { $0.hosts = Array(repeating: "192.0.2.1", count: 65) },
      { $0.socketInodes = Array(repeating: 1, count: 1025) },
    ]
    for change in wrong {
      let error = #expect(throws: RPCError.self) {
        var request = Request()
        change(&request)
        _ = try DiagnosisSubject(request, 1000)
      }
      #expect(error?.code == .invalidArgument)
    }
    var request = Request()
    (request.hosts, request.port) = (["::ffff:192.0.2.1"], 22)
    let subject = try DiagnosisSubject(request, 1000)
    #expect(subject.hosts == [try #require(IPAddress("192.0.2.1"))] && subject.user == 1000)
    #expect(try DiagnosisSubject(Request(), 0).user == nil)
    #expect(try DiagnosisSubject(Request(), 7, ownUser: 7).user == nil)
  }
}
