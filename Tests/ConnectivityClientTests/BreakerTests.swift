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
}
