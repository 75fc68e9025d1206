import Connectivity
import ConnectivityRules
import TestKit
import TestTraits
import Testing

@testable import ConndServer

extension FlowTableTests {
  private func address(_ id: UInt64) throws -> IPAddress {
    try IPAddress(spelt: "198.18.\(id / 256).\(id % 256)")
  }

  /// Guards a flow to its own destination.
  private func addOne(_ id: UInt64, to table: inout FlowTable) throws {
    _ = try self.add(
      .init(key: .init(mailbox: 1, id: id), flow: Flow(Destination(try self.address(id)))),
      to: &table)
  }

  private func addMany(_ count: UInt64, to table: inout FlowTable) throws {
    for id in 1...count { try self.addOne(id, to: &table) }
  }

  /// A table in which all flows have lost their route and are due for evaluation.
  private func tableOfLost(_ count: UInt64) throws -> FlowTable {
    var table = FlowTable()
    try self.addMany(count, to: &table)
    self.leadNowhere()
    self.look(&table)
    return table
  }

  @Test("D6 the kernel's next message is handled before the remaining flows")
  func interrupted() throws {
    var table = try self.tableOfLost(600)
    func told() throws -> Int { try self.evaluateSlice(of: &table).count }
    // The first slices are small, because an event's messages follow each other closely.
    self.kernel.happens(after: 3) { self.kernel.untold.append { [] } }
    #expect(try told() == 4)
    self.kernel.untold = []
    self.kernel.happens(after: 70) { self.kernel.untold.append { [] } }
    // The first events do not wait for a whole slice.
    #expect(try told() == 8)
    #expect(try told() == 16)
    #expect(try told() == 32 + 32)
    #expect(try told() == 32)
    self.kernel.untold = []
    #expect(try told() == 256)
    #expect(try told() == 600 - 4 - 24 - 64 - 32 - 256)
    #expect(!table.isBusy)
  }

  /// No flow has a path, so that each evaluation is one query.
  @Test(
    "I9 flows come and go during a sweep → none is skipped or evaluated twice for one step",
    arguments: [1, 2, 3, 4])
  func comingAndGoing(seed: UInt64) throws {
    var random = SeededGenerator(seed: seed)
    var table = try self.tableOfLost(100)
    var expected = Set(1...100 as ClosedRange<UInt64>)
    var looks: [String: Int] = [:]
    var next: UInt64 = 101
    // A message is always waiting, so each slice is small.
    self.kernel.untold = [{ [] }]
    while table.isBusy {
      let before = self.kernel.questions
      _ = try self.evaluateSlice(of: &table)
      for question in self.kernel.asked[before...] where question.hasPrefix("route") {
        looks[question, default: 0] += 1
      }
      for id in expected.sorted() where Int.random(in: 0..<20, using: &random) == 0 {
        let question = "route \(try self.address(id))"
        table.remove(.init(mailbox: 1, id: id))
        expected.remove(id)
        #expect(looks.removeValue(forKey: question) ?? 0 <= 1)
      }
      // A new flow has already seen what happened.
      try self.addOne(next, to: &table)
      next += 1
    }
    #expect(looks.count == expected.count)
    for id in expected { #expect(looks["route \(try self.address(id))"] == 1) }
  }

  @Test("I9 a step during a sweep → the flows seen so far are evaluated again")
  func stepMeanwhile() throws {
    var table = try self.tableOfLost(20)
    self.kernel.untold = [{ [] }]
    #expect(try self.evaluateSlice(of: &table).count == 4)
    try self.lead(by: 2)
    self.look(&table)
    self.kernel.untold = []
    let before = self.kernel.questions
    // The others have missed nothing: their way is there.
    #expect(
      try self.evaluate(&table) == ["1 path eth0", "2 path eth0", "3 path eth0", "4 path eth0"])
    let asked = self.kernel.asked[before...].filter { $0.hasPrefix("route") }
    #expect(Set(asked).count == 20)
  }

  @Test(
    "K8 a flow due to be destroyed while messages wait is evaluated once more, but not a third time"
  )
  func postponed() throws {
    var table = FlowTable()
    try self.addMany(1, to: &table)
    self.kernel.take("192.0.2.7")
    self.kernel.setState(of: 2, .noCarrier)
    self.look(&table)
    self.kernel.untold = [{ [] }]
    #expect(try self.evaluateSlice(of: &table) == [])
    #expect(table.isBusy && table.count == 1)
    // The loss turned out to be none.
    self.kernel.give(self.local, to: 2)
    self.kernel.setState(of: 2, .up)
    #expect(try self.evaluateSlice(of: &table) == [])
    #expect(!table.isBusy)

    self.kernel.take("192.0.2.7")
    self.kernel.setState(of: 2, .noCarrier)
    self.look(&table)
    #expect(try self.evaluateSlice(of: &table) == [])
    #expect(try self.evaluateSlice(of: &table, isFinal: true) == ["1 destroy sourceAddressLost"])
    #expect(!table.isBusy && table.isEmpty)
  }

  @Test("K8 the kernel fails in the middle of a sweep → no event is lost")
  func failing() throws {
    var table = try self.tableOfLost(6)
    self.kernel.happens(after: 2) { self.kernel.isGone = true }
    #expect(throws: KernelUnavailable.self) { try self.evaluateSlice(of: &table) }
    self.kernel.isGone = false
    #expect(try self.evaluate(&table).count == 6)
  }

  @Test("I10 many grace periods end together → the flows are evaluated in one sweep")
  func manyOverdue() throws {
    var table = try self.tableOfLost(600)
    #expect(table.deadline == nil, "who looks at all does not wait for some")
    #expect(try self.evaluate(&table).count == 600)
    #expect(table.deadline == Instant(sinceStart: .seconds(1)))
    let before = self.kernel.questions
    for _ in 0..<5 { table.examineOverdue(at: Instant(sinceStart: .seconds(2))) }
    #expect(try self.evaluate(&table, at: 2).count == 600)
    // One query for the flow's own way, one for what new connections get.
    #expect(self.kernel.questions - before < 1300)
    #expect(table.isEmpty && table.deadline == nil)
  }

  @Test("I10 only the flows whose grace period is over are evaluated")
  func someOverdue() throws {
    var table = FlowTable()
    try self.addMany(100, to: &table)
    let lost = try IPPrefix(spelt: "198.18.0.42", 32)
    try self.kernel.lead("198.18.0.42", 32, .noRoute(.unreachable))
    self.look(&table)
    #expect(try self.evaluate(&table) == ["42 advise interfaceLost"])
    let before = self.kernel.questions
    table.examineOverdue(at: Instant(sinceStart: .seconds(1)))
    #expect(try self.evaluate(&table, at: 1) == ["42 destroy interfaceLost"])
    let asked = self.kernel.asked[before...].filter { $0.hasPrefix("route") }
    #expect(Set(asked) == ["route \(lost.address)"])
    #expect(!table.isBusy && table.count == 99)
  }

  @Test("I10 a flow in its grace period is removed → its deadline fires once, and not again")
  func goneInDoubt() throws {
    var table = FlowTable()
    try self.addMany(2, to: &table)
    self.leadNowhere()
    try self.kernel.lead("198.18.0.2", 32, .over(2, via: "192.0.2.1", from: "192.0.2.7"))
    self.look(&table)
    #expect(try self.evaluate(&table) == ["1 advise interfaceLost"])
    self.leadNowhere()
    self.look(&table)
    #expect(try self.evaluate(&table, at: 0.5) == ["2 advise interfaceLost"])

    table.remove(.init(mailbox: 1, id: 1))
    #expect(table.deadline == Instant(sinceStart: .seconds(1)))
    table.examineOverdue(at: Instant(sinceStart: .seconds(1)))
    #expect(!table.isBusy && table.deadline == Instant(sinceStart: .seconds(1.5)))
    table.remove(.init(mailbox: 1, id: 2))
    #expect(table.deadline == nil)
  }

  @Test("I4 another router behind the same gateway address → advise; destroy if the link went")
  func gateway() throws {
    let gateway = try IPAddress(spelt: "192.0.2.1")
    func tell(_ last: UInt8) {
      let neighbour = Neighbour(gateway, link: 2, hardwareAddress: [2, 0, 0, 0, 0, last])
      self.kernel.neighbours[gateway] = neighbour
      self.subscriptions.note([.neighbour(neighbour)])
    }
    tell(7)
    var table = FlowTable()
    _ = try self.add(self.registration(1), to: &table)
    tell(7)
    self.look(&table)
    #expect(try self.evaluate(&table) == [])
    tell(8)
    self.look(&table)
    #expect(try self.evaluate(&table) == ["1 advise networkChanged"])
    self.kernel.setState(of: 2, .noCarrier)
    self.subscriptions.note([.link(try #require(self.kernel.linkTable[2]).link)])
    self.kernel.setState(of: 2, .up)
    tell(9)
    self.look(&table)
    #expect(try self.evaluate(&table) == ["1 destroy networkChanged"])
  }

  @Test("D6 ten thousand flows on one way cost one query each", .blocking)
  func manyFlows() throws {
    var table = FlowTable()
    try self.addMany(10_000, to: &table)
    #expect(table.count(of: 1) == 10_000)
    self.look(&table)
    let before = self.kernel.questions
    #expect(try self.evaluate(&table) == [])
    let slices = (10_000 + 255) / 256
    #expect(self.kernel.questions - before <= 10_000 + 8 * slices)
    for key in table.keys(of: 1) { table.remove(key) }
    #expect(table.isEmpty && table.addresses.isEmpty && table.count(of: 1) == 0)
  }
}
