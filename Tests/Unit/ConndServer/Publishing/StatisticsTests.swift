import Connectivity
import ConnectivityRules
import Testing

@testable import ConndServer

@Suite("Statistics")
struct StatisticsTests {
  @Test(
    "an overrun is counted as such, and not as a message",
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

  @Test("each reason and each limit is counted from 0, so that monitoring notices the first event")
  func zeros() {
    let counted = Statistics().counted
    func kinds(_ name: String) -> [String] {
      counted.filter { $0.name == name && $0.value == 0 }.map(\.kind)
    }
    let reasons = Invalidation.Reason.allCases.map(\.rawValue).sorted()
    #expect(kinds("invalidations") == reasons)
    #expect(kinds("flow_invalidations") == reasons)
    // A network that costs money refutes nothing.
    #expect(kinds("refutations") == reasons.filter { $0 != "policy" })
    #expect(Set(kinds("limits_hit")).isSuperset(of: ["flows", "connectionsPerUser", "floods"]))
  }

  @Test("I11 a new connection that is declared dead at its registration counts as a refutation")
  func refutations() throws {
    let remote = Destination(try IPAddress(spelt: "203.0.113.9"))
    let local = try IPAddress(spelt: "192.0.2.7")
    let cause = ChangeCause(.registration, "diedBefore")
    let dead = FlowEvent.invalidation(.init(.betterPath, .destroy), cause, .unknown)
    func counted(
      _ flow: Flow, knownPath: KernelPath? = nil, isExisting: Bool = false, _ answer: FlowEvent
    ) -> [Statistics.Figure] {
      let statistics = Statistics()
      let key = FlowTable.Key(mailbox: 1, id: 1)
      let registration = FlowTable.Registration(
        key: key, flow: flow, knownPath: knownPath, isExisting: isExisting)
      statistics.count(answer, to: registration)
      return statistics.counted.filter { $0.name == "refutations" && $0.value > 0 }
    }
    let made = Flow(remote, local: local)
    #expect(counted(made, dead) == [.init(name: "refutations", kind: "betterPath", value: 1)])
    // Without a socket it is unknown whether there is a connection; an old one may have died
    // before.
    #expect(counted(Flow(remote), dead).isEmpty)
    #expect(counted(made, knownPath: .unknown, dead).isEmpty)
    #expect(counted(made, isExisting: true, dead).isEmpty)
    #expect(counted(made, .path(.unknown)).isEmpty)
    let advice = FlowEvent.invalidation(.init(.betterPath, .advise), cause, .unknown)
    #expect(counted(made, advice).isEmpty)
    // A network that costs money is not an error of connd's.
    let forbidden = FlowEvent.invalidation(.init(.policy, .destroy), cause, .unknown)
    #expect(counted(made, forbidden).isEmpty)
  }
}
