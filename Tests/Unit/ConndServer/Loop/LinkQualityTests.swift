import Connectivity
import ConnectivityRules
import LinuxSupport
import Testing

@testable import ConndServer

/// How well a link carries traffic, in a loop over a kernel that a test writes (Q1 to Q5).
@Suite("The quality of links")
struct LinkQualityTests {
  private var loop: TestLoop

  init() throws {
    self.loop = try TestLoop.started()
  }

  /// Reports an attempt of a user by `eth0`.
  @discardableResult
  private mutating func report(
    _ outcome: AttemptOutcome, host: String = "93.184.215.14", user: UInt32 = 1000
  ) throws -> LinkQuality {
    let destination = Destination(try IPAddress(spelt: host), uid: user)
    let answer = self.loop.loop.note(outcome, to: destination, by: Account(number: user))
    self.loop.loop.perform(.read, on: .init())
    return try answer.get()
  }

  private mutating func limp(user: UInt32 = 1000) throws -> LinkQuality {
    for host in ["93.184.215.14", "1.1.1.1"] { try self.report(.contrast, host: host, user: user) }
    return try self.report(.contrast, user: user)
  }

  private func quality(_ user: UInt32 = 1000) throws -> LinkQuality {
    let destination = Destination(try IPAddress(spelt: "203.0.113.9"), uid: user)
    return try self.loop.loop.ask { queries throws(KernelUnavailable) in
      try queries.path(to: destination)
    }.get().quality
  }

  private var lastCause: String? {
    switch self.loop.loop.feed.store.past.last?.change {
    case .path(let change): change.cause.change
    default: nil
    }
  }

  @Test("Q1 Q5 the driver reports a low signal → a path event with doubt, and no transition")
  mutating func doubt() throws {
    let before = self.loop.loop.feed.store.past.count
    _ = self.loop.tell([.signal(SignalChange(.low, on: 2))])
    #expect(self.loop.loop.feed.store.snapshot.status.ipv4.quality == .moderate)
    #expect(self.lastCause == "signalLow")
    _ = self.loop.tell([.signal(SignalChange(.low, on: 2))])
    _ = self.loop.tell([.signal(SignalChange(.high, on: 2))])
    #expect(self.lastCause == "signalHigh")
    #expect(self.loop.loop.feed.store.past.count == before + 2)
    #expect(self.loop.count("signals") == 3)
    #expect(self.loop.count("published", "transition") == 0 || before > 0)
    #expect(self.loop.invalidations == [])
  }

  @Test("Q1 Q4 frames are lost → doubt ends after ten seconds, and then no timer runs")
  mutating func frames() throws {
    let idle = self.loop.loop.due
    _ = self.loop.tell([.signal(SignalChange(.framesLost, on: 2))])
    #expect(self.loop.loop.due == self.loop.clock.now.advanced(by: .seconds(10)))
    _ = self.loop.turn(after: .seconds(10))
    #expect(try self.quality() == .unknown)
    #expect(self.lastCause == "qualityChanged")
    #expect(self.loop.loop.due == idle)
  }

  @Test("Q2 Q3 a user's races are lost → the user's flows receive the limp, and others do not")
  mutating func limping() throws {
    #expect(try self.limp() == .minimal)
    #expect(try self.quality() == .minimal)
    #expect(try self.quality(1001) == .unknown)
    #expect(self.loop.loop.feed.store.snapshot.status.ipv4.quality == .unknown)
    #expect(try self.report(.clean) == .minimal)
    _ = self.loop.turn(after: .seconds(5))
    #expect(try self.quality() == .unknown)
    #expect(self.loop.count("attempts", "contrast") == 3)
    #expect(self.loop.invalidations == [])
  }

  @Test("Q3 a user's races are lost → only the paths that this user watches are read")
  mutating func readings() throws {
    let host = try IPAddress(spelt: "203.0.113.9")
    for user: UInt32 in [1000, 1001] { _ = self.loop.loop.watch(Destination(host, uid: user)) }
    let before = self.loop.count("readings")
    _ = try self.limp()
    #expect(self.loop.loop.engine.watched.takeSlice().map(\.uid) == [1000])
    self.loop.clock.instant = self.loop.clock.instant.advanced(by: .seconds(5))
    try self.report(.clean)
    #expect(self.loop.loop.engine.watched.takeSlice().map(\.uid) == [1000])
    #expect(self.loop.count("readings") == before)
  }

  /// Guarded connections by which a person might prove a limp.
  struct Witness: CustomTestStringConvertible, Sendable {
    var testDescription: String
    var person: UInt32
    var user: UInt32
    var owner: UInt32
    var hosts = ["93.184.215.14", "1.1.1.1"]
    /// Persons with a connection that is heard.
    var heard: [UInt32] = []
    var proves = false
  }

  @Test(
    "Q3 connections are silent → they prove a limp only if another person owns and guards them",
    arguments: [
      Witness(
        testDescription: "another person", person: 1001, user: 1001, owner: 1001, proves: true),
      Witness(
        testDescription: "a subordinate uid of the reporter", person: 1000, user: 100_000,
        owner: 100_000),
      Witness(
        testDescription: "sockets of the reporter, guarded by another", person: 1001, user: 1001,
        owner: 1000),
      Witness(
        testDescription: "one host", person: 1001, user: 1001, owner: 1001, hosts: ["1.1.1.1"]),
      Witness(
        testDescription: "forty connections of one person, two other persons are heard",
        person: 1001, user: 1001, owner: 1001,
        hosts: (1...40).map { "198.18.0.\($0)" }, heard: [1003, 1004]),
    ])
  mutating func witnesses(_ witness: Witness) throws {
    for (number, host) in witness.hosts.enumerated() {
      try self.connection(
        UInt16(5000 + number), to: host, of: witness.user, person: witness.person,
        SocketReport(
          silence: .seconds(2), inFlight: 100, roundTrip: .milliseconds(20), timeouts: 3,
          hasUnacknowledgedData: true, owner: witness.owner))
    }
    for (number, person) in witness.heard.enumerated() {
      try self.connection(
        UInt16(6000 + number), to: "203.0.113.9", of: person, person: person,
        SocketReport(silence: .milliseconds(10), roundTrip: .milliseconds(20), owner: person))
    }
    _ = self.loop.turn()
    _ = try self.limp()
    #expect(
      try self.quality(1002)
        == (witness.proves
          ? .minimal : witness.heard.isEmpty && witness.hosts.count == 1 ? .moderate : .unknown))
  }

  /// Guards a connection by `eth0`.
  private mutating func connection(
    _ port: UInt16, to host: String, of user: UInt32, person: UInt32, _ report: SocketReport
  ) throws {
    var remote = Destination(try IPAddress(spelt: host), uid: user)
    remote.transport = Transport(6, localPort: port, remotePort: 443)
    let mailbox = TestMailbox(number: UInt64(port), account: Account(number: person))
    self.loop.loop.guards.admit(mailbox)
    self.loop.kernel.sockets[port] = report
    let flow = Flow(remote, local: try IPAddress(spelt: "192.0.2.7"))
    self.loop.loop.guards.enqueue(.add(.init(key: .init(mailbox: UInt64(port), id: 1), flow: flow)))
  }

  @Test("Q5 a limp is explained with its races")
  mutating func explained() throws {
    _ = try self.limp()
    let destination = Destination(try IPAddress(spelt: "203.0.113.9"), uid: 1000)
    let explanation = try self.loop.loop.ask { queries throws(KernelUnavailable) in
      try queries.explain(destination)
    }.get()
    #expect(explanation.qualityReasons == ["3 of 3 races were won by another link"])
  }

  @Test("Q4 reports arrive faster than once a second → a link's sockets are examined once a second")
  mutating func pace() throws {
    try self.report(.contrast)
    #expect(self.loop.loop.pauses.censuses.isEmpty)
    let heard = SocketReport(silence: .zero, roundTrip: .milliseconds(20), owner: 1001)
    try self.connection(5000, to: "1.1.1.1", of: 1001, person: 1001, heard)
    _ = self.loop.turn()
    try self.report(.contrast)
    let next = self.loop.loop.pauses.censuses
    try self.report(.contrast)
    #expect(self.loop.loop.pauses.censuses == next && next.count == 1)
    self.loop.clock.instant = self.loop.clock.instant.advanced(by: .seconds(1))
    try self.report(.stalled)
    #expect(self.loop.loop.pauses.censuses != next)
  }

  @Test("Q3 a user's limp begins → that user's flows are evaluated, and others' are not")
  mutating func flows() throws {
    let heard = SocketReport(silence: .zero, roundTrip: .milliseconds(20))
    for user: UInt32 in [1000, 1001] {
      try self.connection(UInt16(4000 + user), to: "1.1.1.1", of: user, person: user, heard)
    }
    _ = self.loop.turn()
    for host in ["93.184.215.14", "1.1.1.1"] { try self.report(.contrast, host: host) }
    let flows = self.loop.loop.engine.flows
    #expect(!flows.isBusy)
    try self.report(.contrast)
    let due = self.loop.loop.engine.flows.flows.filter(self.loop.loop.engine.flows.isDue)
    #expect(due.map(\.flow.destination.uid) == [1000])
  }

  @Test(
    "Q3 a person's own sockets are silent, and another person reports → no evidence for the first")
  mutating func ownWitness() throws {
    let silent = SocketReport(
      silence: .seconds(2), inFlight: 100, roundTrip: .milliseconds(20), timeouts: 3,
      hasUnacknowledgedData: true,
      owner: 1000)
    for (port, host) in [(5000, "93.184.215.14"), (5001, "1.1.1.1")] as [(UInt16, String)] {
      try self.connection(port, to: host, of: 1000, person: 1000, silent)
    }
    _ = self.loop.turn()
    try self.report(.stalled, user: 1001)
    _ = try self.limp()
    #expect(try self.quality(1002) == .moderate)
    // For another person's limp, they are evidence.
    _ = try self.limp(user: 1003)
    #expect(try self.quality(1002) == .minimal)
  }
}
