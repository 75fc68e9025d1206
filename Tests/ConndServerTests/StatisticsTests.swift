import Connectivity
import Testing

@testable import ConndServer

@Suite("Counting")
struct StatisticsTests {
  @Test(
    "an overrun is counted as such, and is no message",
    arguments: [
      ([], [0, 0, 0, 0]),
      ([.malformed("x"), .ruleRemoved(.ipv4)], [1, 2, 0, 1]),
      ([.overrun], [0, 0, 1, 0]),
      ([.ruleRemoved(.ipv4), .overrun, .malformed("x"), .overrun], [1, 2, 2, 1]),
    ] as [([KernelEvent], [UInt64])])
  func events(events: [KernelEvent], counts: [UInt64]) {
    let statistics = Statistics()
    statistics.count(events)
    let counted = statistics.counted
    let values = ["batches", "events", "overruns", "malformed"].map { name in
      counted.first { $0.name == name }?.value
    }
    #expect(values == counts)
  }
}
