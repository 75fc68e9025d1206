import Connectivity
import ConnectivityRules
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
    let answer = self.loop.loop.note(outcome, to: destination)
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
    #expect(try self.report(.clean) == .unknown)
    #expect(self.loop.count("attempts", "contrast") == 3)
    #expect(self.loop.invalidations == [])
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

  @Test("Q4 reports arrive faster than once a second → sockets are examined once a second")
  mutating func pace() throws {
    try self.report(.contrast)
    let next = self.loop.loop.pauses.census
    try self.report(.contrast)
    #expect(self.loop.loop.pauses.census == next && next != nil)
    self.loop.clock.instant = self.loop.clock.instant.advanced(by: .seconds(1))
    try self.report(.stalled)
    #expect(self.loop.loop.pauses.census != next)
  }
}
