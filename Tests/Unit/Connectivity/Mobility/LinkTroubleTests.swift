import Connectivity
import Testing

@testable import ConnectivityRules

@Suite("The trouble of a link")
struct LinkTroubleTests {
  private static let hosts: [IPAddress] = ["93.184.215.14", "1.1.1.1", "8.8.8.8"]
  private static let user: UInt32 = 1000
  private static let other: UInt32 = 1001

  /// A link's trouble, and the time in seconds.
  private struct Link {
    var trouble = LinkTrouble()
    var now = Instant(sinceStart: .zero)

    mutating func pass(_ seconds: Double) { self.now = self.now.advanced(by: .seconds(seconds)) }

    mutating func handle(_ input: LinkTrouble.Input) {
      self.trouble.handle(input, at: self.now)
    }

    mutating func attempt(
      _ outcome: AttemptOutcome, host: Int = 0, user: UInt32 = LinkTroubleTests.user,
      person: UInt32? = nil
    ) {
      let host = LinkTroubleTests.hosts[host]
      self.handle(.attempt(LinkAttempt(outcome, to: host, by: user, of: person)))
    }

    mutating func limp(user: UInt32 = LinkTroubleTests.user, person: UInt32? = nil) {
      for number in 0..<3 {
        self.attempt(.contrast, host: number % 2, user: user, person: person)
      }
    }

    mutating func quality(_ user: UInt32 = LinkTroubleTests.user) -> LinkQuality {
      self.trouble.expire(at: self.now)
      return self.trouble.report.quality(for: user)
    }
  }

  // MARK: - Q2

  struct Trouble: CustomTestStringConvertible {
    var testDescription: String
    /// How many of 40 attempts were measured to end in a contrast.
    var contrasts: Int
    /// The attempt with which the limp begins, or `nil` if it never does.
    var limp: Int?
    var hosts = 3

    init(_ name: String, _ contrasts: Int, limp: Int? = nil, hosts: Int = 3) {
      (self.testDescription, self.contrasts, self.limp, self.hosts) = (name, contrasts, limp, hosts)
    }
  }

  /// Attempts to connect over an emulated link, and over another one at the same time. If a host is
  /// dead, the other link does not reach it either, and the attempt is not a contrast.
  private static let troubles = [
    Trouble("good", 0), Trouble("loss 1 %", 0), Trouble("loss 3 %", 0), Trouble("loss 10 %", 5),
    Trouble("loss 30 %", 5), Trouble("loss 60 %", 27, limp: 5), Trouble("loss 100 %", 40, limp: 3),
    Trouble("round trip 0.4 s", 0), Trouble("round trip 1 s", 0), Trouble("full queue", 0),
    Trouble("256 kbit/s", 0), Trouble("64 kbit/s", 17, limp: 12), Trouble("dead host", 0),
    Trouble("one of three hosts dead", 0), Trouble("slow server", 0),
    Trouble("one host reached only by the other link", 40, hosts: 1),
  ]

  @Test("Q2 each trouble of a link or a host → it limps, or it does not", arguments: Self.troubles)
  func decided(_ trouble: Trouble) {
    var link = Link()
    var begin: Int?
    for attempt in 1...40 {
      let contrasts = attempt * trouble.contrasts / 40 - (attempt - 1) * trouble.contrasts / 40
      link.attempt(contrasts > 0 ? .contrast : .ready, host: attempt % trouble.hosts)
      if link.quality() == .minimal { begin = begin ?? attempt }
      link.pass(5)
    }
    #expect(begin == trouble.limp)
  }

  @Test("Q2 contrasts are older than a minute → no limp")
  func old() {
    var link = Link()
    link.attempt(.contrast, host: 0)
    link.attempt(.contrast, host: 1)
    link.pass(61)
    link.attempt(.contrast, host: 2)
    #expect(link.quality() == .unknown)
  }

  @Test("Q2 the limp ends with a clean connection, with another network, and after two minutes")
  func ends() {
    for end in [.attempt(LinkAttempt(.clean, to: Self.hosts[0], by: Self.user)), .renewed]
      as [LinkTrouble.Input]
    {
      var link = Link()
      link.limp()
      #expect(link.quality() == .minimal)
      link.pass(5)
      link.handle(end)
      #expect(link.quality() == .unknown && link.trouble.isEmpty)
    }
    var link = Link()
    link.limp()
    link.attempt(.ready)
    link.pass(119)
    #expect(link.quality() == .minimal)
    link.pass(1)
    #expect(link.quality() == .unknown && link.trouble.isEmpty)
  }

  // MARK: - Q1

  @Test("Q1 the signal is low → doubt until it is high, which also ends a limp")
  func signal() {
    var link = Link()
    link.handle(.signal(.low))
    link.pass(3600)
    #expect(link.quality() == .moderate)
    link.limp()
    #expect(link.quality() == .minimal)
    link.handle(.signal(.high))
    #expect(link.quality() == .good)
  }

  @Test("Q1 frames are lost → doubt for ten seconds")
  func frames() {
    var link = Link()
    link.handle(.signal(.framesLost))
    #expect(link.quality() == .moderate)
    link.pass(10)
    #expect(link.quality() == .unknown)
  }

  // MARK: - Q3

  /// - Parameters:
  ///   - silent: The hosts of each person's silent connections.
  ///   - heard: The number of other persons, each with a connection that is heard.
  private static func census(silent: [[Int]], heard: Int) -> SocketCensus {
    var census = SocketCensus()
    for (person, hosts) in silent.enumerated() {
      for host in hosts {
        census.count(
          SocketReport(
            silence: .seconds(2), inFlight: 100, roundTrip: .milliseconds(20), timeouts: 3,
            hasUnacknowledgedData: true), of: self.hosts[host], by: UInt32(person))
      }
    }
    for person in 0..<heard {
      census.count(
        SocketReport(silence: .seconds(1), roundTrip: .milliseconds(20)), of: self.hosts[2],
        by: UInt32(100 + person))
    }
    return census
  }

  @Test("Q3 a hostile user reports contrasts → other users notice nothing")
  func hostile() {
    var link = Link()
    for _ in 0..<1000 {
      link.attempt(.contrast, host: .random(in: 0..<3), user: Self.other)
      link.attempt(.stalled, host: .random(in: 0..<3), user: Self.other)
    }
    #expect(link.quality() == .unknown)
    #expect(link.quality(Self.other) == .minimal)
  }

  @Test(
    "Q3 connd sees silent connections to two hosts, or lost frames → the limp counts for all users",
    arguments: [
      LinkTrouble.Input.census(Self.census(silent: [[0, 0], [1]], heard: 1)), .signal(.framesLost),
      .signal(.low),
    ])
  func confirmed(_ evidence: LinkTrouble.Input) {
    var link = Link()
    link.limp(user: Self.other)
    link.handle(evidence)
    #expect(link.quality() == .minimal)
    link.pass(120)
    #expect(link.quality() != .minimal)
  }

  @Test(
    "Q3 silent connections to one host, or fewer than those heard → at most doubt",
    arguments: [
      (Self.census(silent: [[0], [0], [0]], heard: 1), LinkQuality.moderate),
      (Self.census(silent: [[0, 1, 2, 0, 1, 2]], heard: 1), .unknown),
      (Self.census(silent: [[0], [1]], heard: 2), .unknown),
      (Self.census(silent: [], heard: 0), .unknown),
    ])
  func unconfirmed(row: (census: SocketCensus, quality: LinkQuality)) {
    var link = Link()
    link.limp(user: Self.other)
    link.handle(.census(row.census))
    #expect(link.quality() == row.quality)
  }

  @Test("Q3 timeouts without data in flight, as behind a local firewall → no silent connection")
  func heldBack() {
    var census = SocketCensus()
    for host in Self.hosts {
      census.count(
        SocketReport(
          silence: .seconds(9), roundTrip: .milliseconds(20), timeouts: 5,
          hasUnacknowledgedData: true), of: host, by: Self.other)
    }
    #expect(!census.isTroubled && !census.isOfLink)
  }

  @Test("Q3 one person reports by many uids → other persons' reports are kept")
  func crowded() {
    var link = Link()
    link.limp(user: Self.other)
    for user: UInt32 in 100_000..<100_100 {
      link.pass(0.01)
      link.limp(user: user, person: 1002)
    }
    link.limp()
    #expect(link.quality() == .minimal && link.quality(Self.other) == .minimal)
    #expect(link.quality(100_099) == .minimal && link.quality(100_000) == .unknown)
  }

  @Test("Q3 a user's reports toggle a limp → it lasts five seconds, also for others")
  func toggled() {
    for user in [Self.user, Self.other] {
      var link = Link()
      link.handle(.signal(.low))
      var changes = 0
      var last = link.quality(user)
      for step in 0..<1000 {
        if step % 2 == 0 {
          link.limp(user: Self.other)
        } else {
          link.attempt(.clean, user: Self.other)
        }
        if link.quality(user) != last { changes += 1 }
        last = link.quality(user)
        link.pass(0.01)
      }
      // In ten seconds, two such limps.
      #expect((1...4).contains(changes), "\(changes)")
    }
  }

  @Test("Q3 the reporter of a limp recovers within five seconds → a timer ends it")
  func recovered() {
    var link = Link()
    link.handle(.signal(.low))
    link.limp(user: Self.other)
    let end = link.now.advanced(by: .seconds(5))
    link.pass(1)
    link.attempt(.clean, user: Self.other)
    #expect(link.quality() == .minimal && link.quality(Self.other) == .minimal)
    #expect(link.trouble.deadline == end)
    link.pass(4)
    #expect(link.quality() == .moderate && link.trouble.deadline == nil)
  }

  @Test(
    "Q3 the silent connections belong to one person → they are no evidence for that person's limp")
  func ownEvidence() {
    for (silent, quality) in [([[0, 1]], LinkQuality.moderate), ([[0], [1]], .minimal)] {
      var link = Link()
      link.handle(.census(Self.census(silent: silent, heard: 0)))
      link.limp(user: Self.other, person: 0)
      #expect(link.quality() == quality)
    }
  }

  @Test("Q3 many users report → the memory is bounded")
  func bounded() {
    var link = Link()
    for user in 0..<10_000 { link.limp(user: UInt32(user)) }
    let limping = (0..<10_000).count { link.trouble.report.quality(for: UInt32($0)) == .minimal }
    #expect(limping == 32)
  }

  // MARK: - Q4

  @Test("Q4 neither a limp nor lost frames → no timer")
  func timers() {
    var link = Link()
    #expect(link.trouble.deadline == nil)
    link.handle(.signal(.low))
    link.attempt(.contrast, host: 0)
    link.attempt(.contrast, host: 1)
    #expect(link.trouble.deadline == nil)
    link.attempt(.contrast, host: 2)
    #expect(link.trouble.deadline == link.now.advanced(by: .seconds(120)))
    link.handle(.signal(.framesLost))
    #expect(link.trouble.deadline == link.now.advanced(by: .seconds(10)))
  }
}

@Suite("The conditions of links")
struct LinkConditionsTests {
  private static let now = Instant(sinceStart: .zero)
  private static let chain = [
    KernelPath.Link(index: 5, name: "br0"), KernelPath.Link(index: 2, name: "wlan0"),
  ]

  @Test("Q6 a path is as good as its worst link")
  func worst() {
    var conditions = LinkConditions()
    #expect(conditions.quality(of: Self.chain, for: 0) == .unknown)
    conditions.note([.signal(SignalChange(.high, on: 2))], at: Self.now)
    #expect(conditions.quality(of: Self.chain, for: 0) == .good)
    conditions.note([.signal(SignalChange(.framesLost, on: 5))], at: Self.now)
    #expect(conditions.quality(of: Self.chain, for: 0) == .moderate)
    #expect(conditions.reasons(of: Self.chain, for: 0) == ["packets were lost on br0"])
    conditions.expire(at: Self.now.advanced(by: .seconds(10)))
    #expect(conditions.quality(of: Self.chain, for: 0) == .good)
  }

  @Test(
    "W7 a link joins, roams, is lost, or loses an address → its trouble is forgotten",
    arguments: [
      KernelEvent.wireless(WirelessChange(.roamed, on: 2)),
      .wireless(WirelessChange(.joined, on: 2)),
      .linkRemoved(Link(index: 2, name: "wlan0")),
      .addressRemoved(Address("192.0.2.7", prefixLength: 24, link: 2)),
    ])
  func renewed(_ event: KernelEvent) {
    var conditions = LinkConditions()
    conditions.note([.signal(SignalChange(.low, on: 2))], at: Self.now)
    conditions.note([.wireless(WirelessChange(.roamed, on: 3))], at: Self.now)
    #expect(conditions.quality(of: Self.chain, for: 0) == .moderate)
    conditions.note([event], at: Self.now)
    #expect(conditions == LinkConditions())
  }

  @Test("Q3 a user reports about many links → the driver's evidence about another one counts")
  func crowded() {
    var conditions = LinkConditions()
    for link in 100..<200 as Range<UInt32> {
      let attempt = LinkAttempt(.ready, to: "1.1.1.1", by: 1000)
      conditions.handle(.attempt(attempt), on: link, at: Self.now)
    }
    conditions.note([.signal(SignalChange(.framesLost, on: 2))], at: Self.now)
    #expect(conditions.quality(of: Self.chain, for: 0) == .moderate)
    for link in 200..<300 as Range<UInt32> {
      let attempt = LinkAttempt(.ready, to: "1.1.1.1", by: 1000)
      conditions.handle(.attempt(attempt), on: link, at: Self.now)
    }
    #expect(conditions.quality(of: Self.chain, for: 0) == .moderate)
    #expect(conditions.reports.count == 64)
  }

  @Test("Q6 a thousand links have trouble → the memory is bounded")
  func bounded() {
    var conditions = LinkConditions()
    for link in 1...1000 {
      conditions.note([.signal(SignalChange(.low, on: UInt32(link)))], at: Self.now)
    }
    #expect(conditions.reports.count == 64)
  }
}
