import Glibc
import TestKit
import TestTraits
import Testing

/// Messages faster than connd reads them: the kernel drops them, and only reports ENOBUFS.
@Suite("Overruns", .needsNamespaces, .blocking)
struct OverrunScenario {
  /// More messages than a socket's buffer holds at any default size.
  private static let churn = (0..<3_000).map {
    "address add 10.\(64 + $0 / 250).\($0 % 250).1/32 dev eth1"
  }

  private func laboratory() throws -> Laboratory {
    let lab = try Laboratory()
    try lab.addLink("eth0", "192.0.2.2")
    try lab.addLink("eth1", "10.1.0.2")
    try lab.addLink("eth2", "10.2.0.2")
    try lab.namespace.ip("route add default via 192.0.2.1 metric 100")
    return lab
  }

  @Test("I7 an overrun without a change of the path → nothing is reported")
  func nothing() throws {
    let lab = try self.laboratory()
    try lab.start()
    let connd = try #require(lab.connd)
    let flow = try GuardedFlow(lab, to: "10.2.0.1")
    let abroad = try GuardedFlow(lab, to: "192.0.2.1")
    try lab.whileStopped { try lab.namespace.ipBatch(Self.churn) }
    try waitUntil("the overrun is noticed") { connd.overruns > 0 }
    try lab.expectSilence(after: "an overrun")
    try flow.expectAlive(in: lab, on: "eth2")
    try abroad.expectAlive(in: lab, on: "eth0")
  }

  @Test("I7 D8 a change during an overrun is found by comparison, and marked as learnt late")
  func change() throws {
    let lab = try self.laboratory()
    try lab.start()
    let connd = try #require(lab.connd)
    let unaffected = try GuardedFlow(lab, to: "10.2.0.1")
    let lost = try GuardedFlow(lab, to: "192.0.2.1")
    try lab.whileStopped {
      try lab.namespace.ipBatch(Self.churn)
      // The messages of these changes are lost.
      try lab.namespace.ip("address add 192.0.2.7/24 dev eth0")
      try lab.namespace.ip("address del 192.0.2.2/24 dev eth0")
      try lab.namespace.ip("route replace default via 10.1.0.1 metric 100")
    }
    let event = try lab.event()
    #expect(event.status.ipv4.gateway == "10.1.0.1")
    #expect(event.status.interface == "eth1")
    #expect(event.cause?.learntLate == true, "\(event)")
    #expect(connd.overruns > 0)
    try lab.step("an overrun") {}
    try lost.expectDestroyed("sourceAddressLost")
    try unaffected.expectAlive(in: lab, on: "eth2")
  }

  @Test("D8 a path is lost during an overrun, and back during the next one → both are reported")
  func lossAndGain() throws {
    let lab = try self.laboratory()
    try lab.start()
    try lab.whileStopped {
      try lab.namespace.ipBatch(Self.churn + ["route del default"])
    }
    let loss = try lab.event()
    #expect(loss.to == "none")
    #expect(loss.cause?.learntLate == true)
    // Messages from before the overrun may still be queued. If connd were stopped while it handles
    // one, it would find the next change by asking the kernel, and name that message as the cause.
    try lab.awaitEvaluation()
    try lab.whileStopped {
      try lab.namespace.ipBatch(
        Self.churn.map { $0.replacing(" add ", with: " del ") }
          + ["route add default via 192.0.2.1 metric 100"])
    }
    let gain = try lab.event()
    #expect(gain.to == "other")
    #expect(gain.cause?.learntLate == true)
    try lab.expectSilence(after: "both")
  }

  @Test("D8 with a tiny buffer, connd overruns all the time, and has the final state right")
  func tinyBuffer() throws {
    let lab = try self.laboratory()
    try lab.start(prefix: [
      "python3", Checkout.path("Tests/Programs/python/passed_netlink.py"), "0",
    ])
    let connd = try #require(lab.connd)
    let figures = try ProcessFigures(connd)
    let unaffected = try GuardedFlow(lab, to: "10.2.0.1")
    let count = Storm.size(1_500, full: 30_000)
    for start in stride(from: 0, to: count, by: 1_500) {
      try lab.namespace.ipBatch(
        (start..<start + 1_500).flatMap { number in
          let address = "10.64.\(number / 250 % 250).\(number % 250)/32"
          return [
            "address add \(address) dev eth1",
            "route replace default via 192.0.2.\(10 + number % 200) metric 100",
            "address del \(address) dev eth1",
          ]
        })
    }
    let last = "192.0.2.250"
    try lab.namespace.ip("route replace default via \(last) metric 100")
    let memory = try figures.memory
    var events = 0
    var late = 0
    while true {
      let event = try lab.event()
      events += 1
      if event.cause?.learntLate == true { late += 1 }
      // A slow reader may get a gap, but the default route was never lost.
      #expect(event.event != "transition", "\(event)")
      if event.status.ipv4.gateway == last { break }
    }
    #expect(late > 0)
    // The log mentions overruns, but not each one.
    #expect((1...100).contains(connd.overruns))
    try lab.step("overruns") {}
    try unaffected.expectAlive(in: lab, on: "eth2")
    let sleeps = try figures.sleeps
    Storm.note(
      """
      \(3 * count) changes met a buffer of 2304 bytes: \(events) paths were told, \(late) of them learnt late, in \
      \(sleeps) sleeps of the reader, with \(memory) kB
      """)
  }
}
