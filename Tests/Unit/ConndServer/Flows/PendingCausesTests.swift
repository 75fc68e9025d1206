import Connectivity
import ConnectivityRules
import Testing

@testable import ConndServer

@Suite("Log of steps")
struct PendingCausesTests {
  private var log = PendingCauses()

  private func rules(_ count: Int) -> ReadTrigger {
    .events(Array(repeating: .rule(.ipv4), count: count))
  }

  @Test("T5 events since a step are joined into one step, in order")
  mutating func joined() {
    self.log.append(.init(trigger: .events([.rule(.ipv4)])))
    self.log.append(.init(trigger: .events([.ruleRemoved(.ipv4)])))
    #expect(self.log.step(since: 0).trigger == .events([.rule(.ipv4), .ruleRemoved(.ipv4)]))
    #expect(self.log.step(since: 1).trigger == .events([.ruleRemoved(.ipv4)]))
    // An occasion without messages stands for itself.
    self.log.append(.init(trigger: .configuration))
    #expect(self.log.step(since: 0).trigger == .configuration)
  }

  @Test("Q3 a quality changes after a loss → the loss remains the cause")
  mutating func hidden() {
    self.log.append(.init(trigger: .events([.ruleRemoved(.ipv4)])))
    self.log.append(.init(trigger: .quality))
    #expect(self.log.step(since: 0).trigger == .events([.ruleRemoved(.ipv4)]))
    #expect(self.log.step(since: 1).trigger == .quality)
    // A price may end a flow by itself (I8).
    self.log.append(.init(trigger: .metering))
    #expect(self.log.step(since: 0).trigger == .metering)
    self.log.append(.init(trigger: .events([.rule(.ipv4)])))
    #expect(self.log.step(since: 1).trigger == .events([.rule(.ipv4)]))
  }

  @Test("I10 no event since the step → the cause is the end of a grace period")
  mutating func nothing() {
    #expect(self.log.step(since: 0).trigger == .timer)
    self.log.append(.init(trigger: self.rules(1)))
    #expect(self.log.step(since: 1).trigger == .timer)
    #expect(self.log.step(since: 7).trigger == .timer)
    self.log.clear()
    #expect(self.log.step(since: 0).trigger == .timer && self.log.last == 1)
  }

  @Test("I6 the longest of several sleeps counts, for flows that have not seen it")
  mutating func slept() {
    for seconds in [600, 5] {
      self.log.append(.init(trigger: .resumed(.seconds(seconds)), slept: .seconds(seconds)))
    }
    self.log.append(.init(trigger: self.rules(1)))
    #expect(self.log.step(since: 0).slept == .seconds(600))
    #expect(self.log.step(since: 1).slept == .seconds(5))
    #expect(self.log.step(since: 2).slept == nil)
  }

  @Test("D4 only the last eight steps are kept apart; older ones are merged without loss")
  mutating func bounded() {
    self.log.append(.init(trigger: .resumed(.seconds(600)), slept: .seconds(600)))
    for _ in 0..<100 { self.log.append(.init(trigger: self.rules(1))) }
    #expect(self.log.last == 101)
    #expect(self.log.step(since: 0).slept == .seconds(600))
    #expect(self.log.step(since: 0).trigger == self.rules(100))
    #expect(self.log.step(since: 98).trigger == self.rules(3))
    #expect(self.log.step(since: 98).slept == nil)
  }

  @Test("D4 the number of messages kept for causes is bounded")
  mutating func manyMessages() {
    for _ in 0..<100 { self.log.append(.init(trigger: self.rules(1000))) }
    guard case .events(let events) = self.log.step(since: 0).trigger else {
      Issue.record("no messages")
      return
    }
    #expect(events.count < 20_000)
  }
}
