import Connectivity
import Testing

@testable import ConnectivityClient
@testable import ConnectivityMonitor

@Suite("I11 The breaker")
struct BreakerTests {
  private let start = ContinuousClock.now

  private func opened() -> Breaker {
    var breaker = Breaker()
    for _ in 0..<Breaker.limit { _ = breaker.refuted(now: self.start) }
    return breaker
  }

  @Test("the third refutation in a row opens it, once")
  func opens() {
    var breaker = Breaker()
    for _ in 0..<2 {
      #expect(breaker.refuted(now: self.start) == nil)
      #expect(breaker.allowsGuarding(now: self.start))
    }
    #expect(breaker.refuted(now: self.start) == Breaker.minRest)
    #expect(!breaker.allowsGuarding(now: self.start))
    // A connection that was registered before.
    #expect(breaker.refuted(now: self.start) == nil)
  }

  @Test("a confirmed connection resets the count")
  func resets() {
    var breaker = Breaker()
    for _ in 0..<5 {
      #expect(breaker.refuted(now: self.start) == nil)
      #expect(breaker.refuted(now: self.start) == nil)
      breaker.confirmed(now: self.start)
    }
    #expect(breaker.allowsGuarding(now: self.start))
  }

  @Test("it stays open for its rest, whatever happens to connections registered before")
  func rests() {
    var breaker = self.opened()
    breaker.confirmed(now: self.start)
    let end = self.start + Breaker.minRest
    #expect(!breaker.allowsGuarding(now: end - .nanoseconds(1)))
    #expect(breaker.allowsGuarding(now: end))
  }

  @Test("one refutation on trial opens it again, for twice as long, and for at most an hour")
  func trials() {
    var breaker = self.opened()
    var (now, rest) = (self.start, Breaker.minRest)
    for _ in 0..<6 {
      now += rest
      #expect(breaker.allowsGuarding(now: now))
      rest = min(rest * 2, Breaker.maxRest)
      #expect(breaker.refuted(now: now) == rest)
      #expect(!breaker.allowsGuarding(now: now + rest - .seconds(1)))
    }
    #expect(rest == Breaker.maxRest)
  }

  @Test("a confirmed trial closes it, and three refutations open it again")
  func closes() {
    var breaker = self.opened()
    let end = self.start + Breaker.minRest
    #expect(breaker.allowsGuarding(now: end))
    breaker.confirmed(now: end)
    #expect(breaker.refuted(now: end) == nil)
    #expect(breaker.refuted(now: end) == nil)
    #expect(breaker.refuted(now: end) == Breaker.minRest)
  }

  // MARK: - Destinations

  @Test("a destination refuted once is forgotten after an hour")
  func forgets() {
    var table = BreakerTable<Int>()
    func refute(after time: Duration) -> Bool {
      table.update(7, now: self.start + time) { $0.refuted(now: self.start + time) } != nil
    }
    for _ in 0..<2 { #expect(!refute(after: .zero)) }
    #expect(!refute(after: .seconds(3600)))
    #expect(!refute(after: .seconds(3601)))
    #expect(refute(after: .seconds(3602)))
    #expect(!table.allowsGuarding(7, now: self.start + .seconds(3603)))
    // Others end with the next refutation.
    _ = table.update(8, now: self.start + .seconds(90_000)) { $0.refuted(now: self.start) }
    #expect(table.count == 1)
  }

  @Test("at most 256 destinations are remembered, and the oldest is forgotten")
  func bounded() {
    var table = BreakerTable<Int>()
    for key in 0..<1000 {
      for _ in 0..<Breaker.limit {
        let now = self.start + .milliseconds(key)
        _ = table.update(key, now: now) { $0.refuted(now: now) }
      }
    }
    #expect(table.count == 256)
    let end = self.start + .seconds(2)
    let open = (0..<1000).filter { !table.allowsGuarding($0, now: end) }
    #expect(open == Array(744..<1000))
  }

  // MARK: - connd's reports

  /// A report of connd about a connection, and its phase.
  private typealias Word = (event: FlowEvent, phase: GuardMachine.EventPhase)

  private static func path(_ status: KernelPath.Status) -> FlowEvent {
    .path(KernelPath(status: status, chain: []))
  }

  private static func told(
    _ severity: Invalidation.Severity, _ reason: Invalidation.Reason = .interfaceLost
  ) -> FlowEvent {
    .invalidation(
      InvalidationError(
        reason: reason, severity: severity, cause: ChangeCause(.registration, "pathMissing"),
        path: KernelPath(status: .unsatisfied, chain: [])))
  }

  /// Whether a series of connections with these reports opens the breaker.
  private func opens(_ words: Word...) throws -> Bool {
    var breaker = Breaker()
    let flow = FlowGuard.Flow(
      remote: try #require(IPAddress("203.0.113.9")), local: IPAddress("192.0.2.7"))
    for _ in 0..<Breaker.limit {
      for word in words { _ = breaker.record(word.event, of: flow, word.phase, now: self.start) }
    }
    return !breaker.allowsGuarding(now: self.start)
  }

  @Test("destroyed without ever having a path → a refutation; a path in between → a confirmation")
  func doubts() throws {
    let (advice, end) = (Self.told(.advise), Self.told(.destroy))
    #expect(try self.opens((end, .verdict)))
    #expect(try self.opens((advice, .verdict), (end, .outcome)))
    #expect(try self.opens((advice, .verdict), (Self.told(.drain), .change), (end, .outcome)))
    for reason in [Invalidation.Reason.sourceAddressLost, .networkChanged] {
      #expect(try self.opens((advice, .verdict), (Self.told(.destroy, reason), .outcome)))
    }
    #expect(try !self.opens((advice, .verdict)))
    // A better path than the one that connd did not see is not an error.
    for reason in [Invalidation.Reason.betterPath, .resumed, .policy, .categoryChanged] {
      #expect(try !self.opens((advice, .verdict), (Self.told(.destroy, reason), .outcome)))
    }
    #expect(
      try !self.opens(
        (end, .verdict), (advice, .verdict), (Self.path(.satisfied), .outcome), (end, .change)))
    #expect(try !self.opens((end, .verdict), (Self.path(.satisfied), .verdict)))
    // No path, or an unknown one, confirms nothing.
    #expect(try self.opens((end, .verdict), (Self.path(.unsatisfied), .verdict)))
    #expect(try self.opens((end, .verdict), (Self.path(.unknown), .verdict)))
    // A later event says nothing about how connd judges new connections.
    #expect(try !self.opens((Self.path(.satisfied), .verdict), (end, .change)))
    #expect(try !self.opens((Self.told(.destroy, .policy), .verdict)))
  }
}
