import Connectivity
import ConnectivitySession
import Testing

@testable import ConnectivityClient

@Suite("I11 The breaker")
struct BreakerTests {
  private let start = ContinuousClock.now

  private func opened() -> Breaker {
    var breaker = Breaker()
    for _ in 0..<Breaker.limit { _ = breaker.refuted(now: self.start) }
    return breaker
  }

  @Test("the third refutation running opens it, once")
  func opens() {
    var breaker = Breaker()
    for _ in 0..<2 {
      #expect(breaker.refuted(now: self.start) == nil)
      #expect(breaker.allowsGuarding(now: self.start))
    }
    #expect(breaker.refuted(now: self.start) == Breaker.shortestRest)
    #expect(!breaker.allowsGuarding(now: self.start))
    // One that was registered before.
    #expect(breaker.refuted(now: self.start) == nil)
  }

  @Test("a connection that is confirmed begins the count anew")
  func resets() {
    var breaker = Breaker()
    for _ in 0..<5 {
      #expect(breaker.refuted(now: self.start) == nil)
      #expect(breaker.refuted(now: self.start) == nil)
      breaker.confirmed(now: self.start)
    }
    #expect(breaker.allowsGuarding(now: self.start))
  }

  @Test("it stays open for its rest, whatever becomes of connections that were registered before")
  func rests() {
    var breaker = self.opened()
    breaker.confirmed(now: self.start)
    let end = self.start + Breaker.shortestRest
    #expect(!breaker.allowsGuarding(now: end - .nanoseconds(1)))
    #expect(breaker.allowsGuarding(now: end))
  }

  @Test("one refutation on trial opens it again, for twice as long, and for an hour at most")
  func trials() {
    var breaker = self.opened()
    var (now, rest) = (self.start, Breaker.shortestRest)
    for _ in 0..<6 {
      now += rest
      #expect(breaker.allowsGuarding(now: now))
      rest = min(rest * 2, Breaker.longestRest)
      #expect(breaker.refuted(now: now) == rest)
      #expect(!breaker.allowsGuarding(now: now + rest - .seconds(1)))
    }
    #expect(rest == Breaker.longestRest)
  }

  @Test("a trial that is confirmed closes it, and three refutations open it again")
  func closes() {
    var breaker = self.opened()
    let end = self.start + Breaker.shortestRest
    #expect(breaker.allowsGuarding(now: end))
    breaker.confirmed(now: end)
    #expect(breaker.refuted(now: end) == nil)
    #expect(breaker.refuted(now: end) == nil)
    #expect(breaker.refuted(now: end) == Breaker.shortestRest)
  }

  // MARK: - What connd says

  /// A word of connd's about a connection, and what it is to that connection.
  private typealias Word = (event: FlowEvent, novelty: ConnectionGuard.Novelty)

  private static func path(_ status: Path.Status) -> FlowEvent {
    .path(Path(status: status, chain: []))
  }

  private static func told(
    _ severity: Invalidation.Severity, _ reason: Invalidation.Reason = .interfaceLost
  ) -> FlowEvent {
    .invalidation(
      FlowInvalidation(
        reason: reason, severity: severity, cause: Cause(.registration, "pathMissing"),
        path: Path(status: .unsatisfied, chain: [])))
  }

  /// Whether connections of which connd says this, each the same, come to be unguarded.
  private func opens(_ words: Word...) throws -> Bool {
    var breaker = Breaker()
    let flow = FlowGuard.Flow(
      remote: try #require(IPAddress("203.0.113.9")), local: IPAddress("192.0.2.7"))
    for _ in 0..<Breaker.limit {
      for word in words { _ = breaker.heed(word.event, of: flow, word.novelty, now: self.start) }
    }
    return !breaker.allowsGuarding(now: self.start)
  }

  @Test("what connd never saw a path for, and destroys, is refuted; a path in between confirms it")
  func doubts() throws {
    let (advice, end) = (Self.told(.advise), Self.told(.destroy))
    #expect(try self.opens((end, .verdict)))
    #expect(try self.opens((advice, .verdict), (end, .outcome)))
    #expect(try self.opens((advice, .verdict), (Self.told(.drain), .change), (end, .outcome)))
    for reason in [Invalidation.Reason.sourceAddressLost, .networkChanged] {
      #expect(try self.opens((advice, .verdict), (Self.told(.destroy, reason), .outcome)))
    }
    #expect(try !self.opens((advice, .verdict)))
    // That there is a better path than the one that it did not see is no error.
    for reason in [Invalidation.Reason.betterPath, .resumed, .policy, .categoryChanged] {
      #expect(try !self.opens((advice, .verdict), (Self.told(.destroy, reason), .outcome)))
    }
    #expect(
      try !self.opens(
        (end, .verdict), (advice, .verdict), (Self.path(.satisfied), .outcome), (end, .change)))
    #expect(try !self.opens((end, .verdict), (Self.path(.satisfied), .verdict)))
    // That there is no path, or that nothing is known, confirms nothing.
    #expect(try self.opens((end, .verdict), (Self.path(.unsatisfied), .verdict)))
    #expect(try self.opens((end, .verdict), (Self.path(.unknown), .verdict)))
    // What has happened since is no word about what connd makes of new connections.
    #expect(try !self.opens((Self.path(.satisfied), .verdict), (end, .change)))
    #expect(try !self.opens((Self.told(.destroy, .policy), .verdict)))
  }
}
