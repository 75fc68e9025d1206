import Connectivity
import ConnectivityRules
import Testing

@testable import ConndServer

@Suite("The log of steps")
struct StepLogTests {
  private var log = StepLog()

  private func rules(_ count: Int) -> Occasion {
    .events(Array(repeating: .rule(.ipv4), count: count))
  }

  @Test("T5 what happened since is told as one, in its order")
  mutating func joined() {
    self.log.append(.init(occasion: .events([.rule(.ipv4)])))
    self.log.append(.init(occasion: .events([.ruleRemoved(.ipv4)])))
    #expect(self.log.step(since: 0).occasion == .events([.rule(.ipv4), .ruleRemoved(.ipv4)]))
    #expect(self.log.step(since: 1).occasion == .events([.ruleRemoved(.ipv4)]))
    // What is not told by messages stands for itself.
    self.log.append(.init(occasion: .configuration))
    #expect(self.log.step(since: 0).occasion == .configuration)
  }

  @Test("I10 where nothing has happened since, a grace has ended")
  mutating func nothing() {
    #expect(self.log.step(since: 0).occasion == .timer)
    self.log.append(.init(occasion: self.rules(1)))
    #expect(self.log.step(since: 1).occasion == .timer)
    #expect(self.log.step(since: 7).occasion == .timer)
    self.log.clear()
    #expect(self.log.step(since: 0).occasion == .timer && self.log.last == 1)
  }

  @Test("I6 of several sleeps the longest counts, for those who have not seen it")
  mutating func slept() {
    for seconds in [600, 5] {
      self.log.append(.init(occasion: .resumed(.seconds(seconds)), slept: .seconds(seconds)))
    }
    self.log.append(.init(occasion: self.rules(1)))
    #expect(self.log.step(since: 0).slept == .seconds(600))
    #expect(self.log.step(since: 1).slept == .seconds(5))
    #expect(self.log.step(since: 2).slept == nil)
  }

  @Test("D4 only the last eight are told apart, and nothing of the others is lost")
  mutating func bounded() {
    self.log.append(.init(occasion: .resumed(.seconds(600)), slept: .seconds(600)))
    for _ in 0..<100 { self.log.append(.init(occasion: self.rules(1))) }
    #expect(self.log.last == 101)
    #expect(self.log.step(since: 0).slept == .seconds(600))
    #expect(self.log.step(since: 0).occasion == self.rules(100))
    #expect(self.log.step(since: 98).occasion == self.rules(3))
    #expect(self.log.step(since: 98).slept == nil)
  }

  @Test("D4 messages without end are not all kept for the sake of the cause")
  mutating func manyMessages() {
    for _ in 0..<100 { self.log.append(.init(occasion: self.rules(1000))) }
    guard case .events(let events) = self.log.step(since: 0).occasion else {
      Issue.record("no messages")
      return
    }
    #expect(events.count < 20_000)
  }
}
