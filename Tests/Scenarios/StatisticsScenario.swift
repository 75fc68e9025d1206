import Glibc
import TestKit
import TestTraits
import Testing

@Suite("Statistics", .needsNamespaces, .blocking)
struct StatisticsScenario {
  @Test("Events are counted, and gauges can be read")
  func counted() throws {
    let lab = try Laboratory()
    try lab.addLink("eth0", "192.0.2.2")
    try lab.namespace.ip("route add default via 192.0.2.1")
    try lab.start()
    // It is counted when it was published.
    try waitUntil("it is counted") { try lab.statistics().published["transition"] == 1 }
    let start = try lab.statistics()
    #expect(start.resynchronisations == 1, "the first reading")
    #expect(start.subscriptions == 1)
    #expect(start.subscribers == 1)
    #expect(start.published == ["transition": 1, "path": 0, "invalidation": 0, "dns": 0])

    let flow = try GuardedFlow(lab, "198.51.100.80")
    #expect(try lab.statistics().guardedFlows == 1)
    try lab.ip("link set eth0 down")
    #expect(try lab.event().event == "transition")
    let invalidation = try #require(lab.watcher).nextInvalidation()
    let flowInvalidation = try flow.invalidation()
    let end = try lab.statistics()
    #expect(end.published["transition"] == 2)
    #expect(end.invalidations[invalidation.reason] == 1)
    #expect(end.invalidations.values.reduce(0, +) == end.published["invalidation"])
    #expect(end.flowInvalidations == [flowInvalidation.reason: 1])
    #expect(end.events > start.events)
    #expect(end.batches > start.batches)
    #expect(end.readings > start.readings)
    #expect(end.overruns == 0)
    #expect(end.history == end.published.values.reduce(0, +))

    // None of it concerns the default path, so it is read and suppressed.
    try lab.namespace.ip("link set lo down")
    try waitUntil("the reading is counted") { try lab.statistics().suppressed > end.suppressed }
  }

  @Test("SIGUSR1 writes the statistics to the log")
  func logged() throws {
    let lab = try Laboratory()
    let connd = try lab.startConnd()
    connd.signal(SIGUSR1)
    try waitUntil("the log has them") {
      let log = connd.standardError
      return log.contains("statistics since") && log.contains("readings=1")
    }
    #expect(try lab.status().category == "none")
  }
}

/// The output of `connctl stats --json`.
struct StatisticsReport: Decodable {
  var batches, events, readings, resynchronisations, suppressed, overruns: Int
  var subscriptions, subscribers, guardedFlows, history, spared, found: Int
  var published, invalidations, flowInvalidations, refutations: [String: Int]
}

extension Laboratory {
  /// connd's counters, without reasons that have not occurred.
  func statistics() throws -> StatisticsReport {
    var report: StatisticsReport = try decode(try self.connctl("stats", "--json").output)
    for kinds in [\StatisticsReport.invalidations, \.flowInvalidations, \.refutations] {
      report[keyPath: kinds] = report[keyPath: kinds].filter { $0.value > 0 }
    }
    return report
  }
}
