import Connectivity
import ConnectivityRules
import Testing

@testable import ConndServer

@Suite("Log of steps")
struct StepLogTests {
  private var log = StepLog()

  private func rules(_ count: Int) -> Occasion {
    .events(Array(repeating: .rule(.ipv4), count: count))
  }

  @Test("T5 events since a step are joined into one step, in order")
  mutating func joined() {
    self.log.append(.init(occasion: .events([.rule(.ipv4)])))
    self.log.append(.init(occasion: .events([.ruleRemoved(.ipv4)])))
    #expect(self.log.step(since: 0).occasion == .events([.rule(.ipv4), .ruleRemoved(.ipv4)]))
    #expect(self.log.step(since: 1).occasion == .events([.ruleRemoved(.ipv4)]))
    // An occasion without messages stands for itself.
    self.log.append(.init(occasion: .configuration))
    #expect(self.log.step(since: 0).occasion == .configuration)
  }

  @Test("I10 no event since the step → the cause is the end of a grace period")
  mutating func nothing() {
    #expect(self.log.step(since: 0).occasion == .timer)
    self.log.append(.init(occasion: self.rules(1)))
    #expect(self.log.step(since: 1).occasion == .timer)
    #expect(self.log.step(since: 7).occasion == .timer)
    self.log.clear()
    #expect(self.log.step(since: 0).occasion == .timer && self.log.last == 1)
  }

  @Test("I6 the longest of several sleeps counts, for flows that have not seen it")
  mutating func slept() {
    for seconds in [600, 5] {
      self.log.append(.init(occasion: .resumed(.seconds(seconds)), slept: .seconds(seconds)))
    }
    self.log.append(.init(occasion: self.rules(1)))
    #expect(self.log.step(since: 0).slept == .seconds(600))
    #expect(self.log.step(since: 1).slept == .seconds(5))
    #expect(self.log.step(since: 2).slept == nil)
  }

  @Test("D4 only the last eight steps are kept apart; older ones are merged without loss")
  mutating func bounded() {
    self.log.append(.init(occasion: .resumed(.seconds(600)), slept: .seconds(600)))
    for _ in 0..<100 { self.log.append(.init(occasion: self.rules(1))) }
    #expect(self.log.last == 101)
    #expect(self.log.step(since: 0).slept == .seconds(600))
    #expect(self.log.step(since: 0).occasion == self.rules(100))
    #expect(self.log.step(since: 98).occasion == self.rules(3))
    #expect(self.log.step(since: 98).slept == nil)
  }

  @Test("D4 the number of messages kept for causes is bounded")
  mutating func manyMessages() {
    for _ in 0..<100 { self.log.append(.init(occasion: self.rules(1000))) }
    guard case .events(let events) = self.log.step(since: 0).occasion else {
      Issue.record("no messages")
      return
    }
    #expect(events.count < 20_000)
  }
}
