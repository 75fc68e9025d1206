import Connectivity
import ConnectivityRules
import LinuxSupport
import TestKit
import Testing

@testable import ConndServer

extension FlowTableTests {
  /// A QUIC connection from eth0, which can move to another path.
  private func quic(_ id: UInt64, migrates: Bool = true) -> FlowTable.Registration {
    var registration = self.registration(id, local: self.local)
    registration.flow.destination.transport = Transport(17, localPort: 4711, remotePort: 443)
    registration.flow.migrates = migrates
    return registration
  }

  private func heard(_ id: UInt64, _ table: inout FlowTable, at second: Double) {
    _ = table.admit(
      GuardRequest(.heard(.init(mailbox: 1, id: id))), Limits(),
      at: Instant(sinceStart: .seconds(second)))
  }

  @Test("I12 the link of a connection that can migrate is lost → move to the other link")
  func migration() throws {
    try self.lead(by: 3, metric: 200)
    var table = FlowTable()
    _ = try self.add(self.quic(1), to: &table)
    _ = try self.add(self.quic(2, migrates: false), to: &table)
    self.kernel.routes.removeFirst()
    self.kernel.setState(of: 2, .noCarrier)
    self.look(&table)
    #expect(try self.evaluate(&table) == ["1 move eth1", "2 destroy interfaceLost"])
    #expect(table.count == 1)
    // The connection continues over the other link, and comes back if that link is lost, too.
    self.look(&table)
    #expect(try self.evaluate(&table) == [])
    self.leadNowhere()
    self.kernel.setState(of: 2, .up)
    self.kernel.setState(of: 3, .noCarrier)
    try self.lead(by: 2)
    self.look(&table)
    #expect(try self.evaluate(&table) == ["1 move eth0"])
  }

  @Test("I12 no path is left → move without a path, and then the first path")
  func migrationLater() throws {
    var table = FlowTable()
    _ = try self.add(self.quic(1), to: &table)
    self.leadNowhere()
    self.kernel.setState(of: 2, .noCarrier)
    self.look(&table)
    #expect(try self.evaluate(&table) == ["1 advise interfaceLost"])
    table.examineOverdue(at: Instant(sinceStart: .seconds(1.5)))
    #expect(try self.evaluate(&table, at: 1.5) == ["1 move none"])
    try self.lead(by: 3)
    self.look(&table)
    #expect(try self.evaluate(&table, at: 2) == ["1 path eth1"])
  }

  @Test("I12 a connection lost its address before it was registered → move")
  func migratedBefore() throws {
    try self.lead(by: 3, metric: 50)
    var table = FlowTable()
    var registration = self.quic(1)
    registration.flow.local = try IPAddress(spelt: "192.0.2.99")
    #expect(self.words(try self.add(registration, to: &table)) == "1 move eth1")
    #expect(table.count == 1)
  }

  @Test("I8 I12 the path of a connection that can migrate becomes forbidden → destroyed")
  func forbidden() throws {
    var table = FlowTable()
    var registration = self.quic(1)
    registration.flow.forbidsConstrained = true
    let told = try self.add(registration, to: &table)
    #expect(self.words(told) == "1 path eth0")
    self.policy = LinkPolicy([.init(match: "eth0", constraint: .constrained)])
    self.look(&table)
    #expect(try self.evaluate(&table) == ["1 destroy policy"])
  }

  @Test(
    "E1 I12 the peer of a UDP flow is heard in the grace period → the flow is spared",
    arguments: [true, false])
  func heardInGrace(isHeard: Bool) throws {
    var table = FlowTable()
    _ = try self.add(self.quic(1, migrates: false), to: &table)
    self.leadNowhere()
    self.look(&table)
    #expect(try self.evaluate(&table) == ["1 advise interfaceLost"])
    if isHeard { self.heard(1, &table, at: 0.5) }
    // Unknown flows are ignored.
    self.heard(7, &table, at: 0.5)
    table.examineOverdue(at: Instant(sinceStart: .seconds(1.5)))
    #expect(
      try self.evaluate(&table, at: 1.5)
        == [isHeard ? "1 path none" : "1 destroy interfaceLost"])
    #expect(table.count == (isHeard ? 1 : 0))
    guard isHeard else { return }
    // The next change judges the flow again.
    self.kernel.setState(of: 2, .noCarrier)
    try self.lead(by: 3)
    self.look(&table)
    #expect(try self.evaluate(&table, at: 2) == ["1 destroy interfaceLost"])
  }

  @Test("E1 the peer was heard before a second change → the flow is not spared")
  func heardBetween() throws {
    var table = FlowTable()
    _ = try self.add(self.quic(1, migrates: false), to: &table)
    self.leadNowhere()
    self.look(&table)
    _ = try self.evaluate(&table)
    self.heard(1, &table, at: 0.5)
    self.kernel.setState(of: 2, .noCarrier)
    try self.lead(by: 3)
    table.examineAll(.init(trigger: .timer, time: Instant(sinceStart: .seconds(0.8))))
    #expect(try self.evaluate(&table, at: 0.8) == ["1 destroy interfaceLost"])
  }

  @Test("E1 I12 the peer is heard within 100 ms after the change → the flow is not spared")
  func heardLate() throws {
    var table = FlowTable()
    _ = try self.add(self.quic(1, migrates: false), to: &table)
    self.leadNowhere()
    self.look(&table)
    _ = try self.evaluate(&table)
    self.heard(1, &table, at: 0.05)
    table.examineOverdue(at: Instant(sinceStart: .seconds(1.5)))
    #expect(try self.evaluate(&table, at: 1.5) == ["1 destroy interfaceLost"])
  }

  @Test("I8 I12 the only other path is forbidden → the connection ends")
  func forbiddenMove() throws {
    try self.lead(by: 3, metric: 200)
    self.policy = LinkPolicy([.init(match: "eth1", constraint: .constrained)])
    var table = FlowTable()
    var registration = self.quic(1)
    registration.flow.forbidsConstrained = true
    _ = try self.add(registration, to: &table)
    self.kernel.routes.removeFirst()
    self.kernel.setState(of: 2, .noCarrier)
    self.look(&table)
    #expect(try self.evaluate(&table) == ["1 destroy policy"])
    #expect(table.count == 0)
  }
}
