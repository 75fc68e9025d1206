import Connectivity
import ConnectivityRules
import Invariants
import LinuxSupport
import TestKit
import Testing
import UnixTransport

@testable import ConndServer

/// A broken table is reported. A debug build would stop, so the tests observe what it finds.
@Suite("Invariants of the flow table")
struct FlowTableInvariantsTests {
  private static func key(_ id: UInt64) -> FlowTable.Key { .init(mailbox: 1, id: id) }

  private func table() throws -> FlowTable {
    var table = FlowTable()
    for id in 1...3 as ClosedRange<UInt64> {
      let flow = Flow(Destination(try IPAddress(spelt: "203.0.113.\(id)")))
      _ = table.addPending(
        .init(key: Self.key(id), flow: flow), of: Account(number: 1000 + UInt32(id)))
    }
    return table
  }

  private enum Damage: String, CaseIterable {
    case tooManyDue, tooFewDue, inDoubtWithoutDeadline, pendingAfterItsEnd
  }

  @Test("flows come and go → the table agrees with itself")
  func sound() throws {
    var table = try self.table()
    table.examineAll(.init(trigger: .start, time: Instant(sinceStart: .zero)))
    #expect(table.fault == nil && table.due == 3)
    for id in [2, 1, 3] as [UInt64] {
      table.remove(Self.key(id))
      #expect(table.fault == nil)
    }
    #expect(table.isEmpty && table.usage.isEmpty)
  }

  @Test("a count or a list of flows is wrong → reported", arguments: Damage.allCases)
  private func broken(_ damage: Damage) throws {
    var table = try self.table()
    switch damage {
    case .tooManyDue: table.due = 4
    case .tooFewDue: table.due = -1
    case .inDoubtWithoutDeadline: table.inDoubt.insert(Self.key(2))
    case .pendingAfterItsEnd: table.pending[Self.key(4)] = table.pending[Self.key(1)]
    }
    let faults = Invariants { _ in }
    Invariants.$observer.withValue(faults) { table.check() }
    #expect(faults.count > 0 && table.fault != nil)
  }

  @Test("no flow is due although some are counted → reported, and the sweep ends")
  func emptyPart() throws {
    var table = try self.table()
    table.due = 2
    let faults = Invariants { _ in }
    let part = Invariants.$observer.withValue(faults) { table.takePart() }
    #expect(part.isEmpty && table.due == 0 && faults.count == 1)
  }

  @Test("a flow is guarded twice → reported")
  func twice() throws {
    var table = try self.table()
    let flow = Flow(Destination(try IPAddress(spelt: "203.0.113.1")))
    let faults = Invariants { _ in }
    Invariants.$observer.withValue(faults) {
      _ = table.addPending(.init(key: Self.key(1), flow: flow), of: .root)
    }
    #expect(faults.count > 0)
  }
}
