import Glibc
import TestKit
import TestTraits
import Testing

/// Storms of events beside the path, and a path that never rests.
@Suite("Storms", .needsNamespaces, .blocking)
struct StormsScenario {
  private func laboratory() throws -> Laboratory {
    let lab = try Laboratory()
    try lab.addLink("eth0", "10.0.0.2")
    try lab.addLink("eth1", "10.1.0.2")
    try lab.namespace.ip("route add default via 10.0.0.1")
    try lab.start()
    return lab
  }

  @Test("D6 D7 hundreds of thousands of routes come and go → connd sleeps")
  func routes() throws {
    let lab = try self.laboratory()
    try self.storm(in: lab)
    try lab.step("a storm of routes") {}
  }

  @Test(
    "D6 D7 the same with a hundred watched destinations → only routes that may contain one wake connd"
  )
  func watched() throws {
    let lab = try self.laboratory()
    let client = try lab.python("guard.py", "watching")
    try client.line { $0 == "guarding" }
    try self.storm(in: lab)
    // Only the destination with a new route gets a report.
    try lab.namespace.ip("route add 198.18.70.0/24 via 10.1.0.1")
    #expect(try client.nextLine() == "70 invalidation")
    try lab.namespace.ip("route add 198.18.71.1/32 via 10.1.0.1")
    #expect(try client.nextLine() == "71 invalidation")
    try lab.step("a storm of routes") {}
  }

  /// Loads unrelated routes and flushes them. connd must not notice.
  private func storm(in lab: Laboratory) throws {
    let connd = try #require(lab.connd)
    let figures = try ProcessFigures(connd)
    let (sleeps, memory) = (try figures.sleepsAtRest(), try figures.memory)
    let count = Storm.size(50_000, full: 1_000_000)
    var loaded = 0
    while loaded < count {
      let next = min(loaded + 50_000, count)
      try lab.namespace.ipBatch(
        (loaded..<next).map {
          "route add 20.\($0 >> 16).\($0 >> 8 & 255).\($0 & 255)/32 via 10.1.0.1"
        })
      loaded = next
    }
    #expect(try figures.sleepsAtRest() == sleeps, "after \(count) routes came")
    try lab.namespace.ip("route flush root 20.0.0.0/8")
    #expect(try figures.sleepsAtRest() == sleeps, "after \(count) routes went")
    let growth = try figures.memory - memory
    #expect(growth <= 64, "kilobytes")
    #expect(connd.overruns == 0)
    Storm.note("\(count) routes came and went: no wake-up, \(growth) kB more memory")
  }

  @Test("T1 a link flaps → every published loss has its gain, and the end is right")
  func flapping() throws {
    let lab = try self.laboratory()
    let flaps = Storm.size(40, full: 1_000)
    var events: [EventReport] = []
    for flap in 1...flaps {
      try lab.namespace.ip("link set eth0 down")
      // Even a slow connd sees each of the first losses.
      if flap <= 3 { events += try lab.events { $0.status.category == "none" } }
      // A watcher that is not read for long gets a gap. Such gains are recognised by their gateway.
      let isRead = flap <= 3 || flap == flaps || flap.isMultiple(of: 40)
      let gateway = isRead ? "10.0.0.\(100 + flap / 40)" : "10.0.0.1"
      try lab.namespace.ipBatch(["link set eth0 up", "route add default via \(gateway)"])
      guard isRead else { continue }
      events += try lab.events {
        $0.status.category == "other" && $0.status.ipv4.gateway == gateway
      }
    }
    let transitions = events.filter { $0.event == "transition" }
    let gains = transitions.filter { $0.to == "other" && $0.bounced != true }
    let losses = transitions.filter { $0.to == "none" }
    #expect(
      losses.count == gains.count,
      "\(events.map { "\($0.event) \($0.from ?? "") \($0.to ?? "") \($0.generation)" })")
    #expect(losses.count >= 3)
    #expect(gains.allSatisfy { $0.cause?.trigger != "timer" }, "\(gains)")
    try lab.step("\(flaps) flaps") {}
    Storm.note("a link flapped \(flaps) times: \(losses.count) losses and gains were told")
  }
}
