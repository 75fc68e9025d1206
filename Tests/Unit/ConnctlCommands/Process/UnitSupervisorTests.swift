import Connectivity
import Testing

@testable import ConnctlCommands

@Suite("Units started while conditions hold")
struct UnitSupervisorTests {
  private static let start = SuspendingClock.now
  private static let offline = ConnectivityStatus(
    ipv4: .unsatisfied(.noRoute), ipv6: .unsatisfied(.noRoute), preferred: .ipv4)
  private static let free = ConnectivityStatus(
    ipv4: .wlan, ipv6: .unsatisfied(.noRoute), preferred: .ipv4)
  private static var paid: ConnectivityStatus {
    var status = Self.free
    status.ipv4.costsMoney = true
    return status
  }

  private func at(_ seconds: Int) -> SuspendingClock.Instant {
    Self.start.advanced(by: .seconds(seconds))
  }

  private func units() throws -> UnitSupervisor {
    UnitSupervisor(
      [
        try .init(reading: "online=on.target"),
        try .init(reading: "online,not-metered,not-constrained=free.target"),
      ], grace: .seconds(5))
  }

  @Test("the first status starts and stops units as needed")
  func first() throws {
    var units = try self.units()
    #expect(units.due == nil)
    #expect(units.note(Self.paid, at: self.at(0)) == [.start("on.target"), .stop("free.target")])
    #expect(units.due == nil)
    #expect(units.note(Self.free, at: self.at(1)) == [.start("free.target")])
    #expect(units.note(Self.free, at: self.at(2)) == [])

    units = try self.units()
    #expect(units.note(Self.offline, at: self.at(0)) == [.stop("on.target"), .stop("free.target")])
    #expect(units.elapse(at: self.at(60)) == [] && units.due == nil)
  }

  @Test(
    "a condition that ends stops its unit after the grace period, unless it holds again in time")
  func grace() throws {
    var units = try self.units()
    _ = units.note(Self.free, at: self.at(0))
    #expect(units.note(Self.offline, at: self.at(10)) == [])
    #expect(units.due == self.at(15))
    #expect(units.elapse(at: self.at(14)) == [])
    // Back, but metered: only one of the two conditions holds again, and the other has not held all
    // the time.
    #expect(units.note(Self.paid, at: self.at(14)) == [])
    #expect(units.due == self.at(15))
    #expect(units.elapse(at: self.at(15)) == [.stop("free.target")])
    #expect(units.due == nil)
    // The grace period restarts with each loss.
    #expect(units.note(Self.offline, at: self.at(20)) == [] && units.due == self.at(25))
    #expect(units.note(Self.free, at: self.at(24)) == [.start("free.target")] && units.due == nil)
    #expect(units.note(Self.offline, at: self.at(30)) == [] && units.due == self.at(35))
    // The machine slept: its first event comes after that.
    #expect(
      units.note(Self.offline, at: self.at(90)) == [.stop("on.target"), .stop("free.target")])
  }

  @Test(
    "a failed action is retried at the next status, or after half a minute, with doubling delays"
  )
  func failures() throws {
    var units = try self.units()
    for action in units.note(Self.free, at: self.at(0)) {
      units.note(action, isDone: false, at: self.at(0))
    }
    #expect(units.due == self.at(30))
    #expect(units.note(Self.free, at: self.at(1)) == [.start("on.target"), .start("free.target")])
    units.note(.start("on.target"), isDone: true, at: self.at(1))
    units.note(.start("free.target"), isDone: false, at: self.at(1))
    #expect(units.note(Self.paid, at: self.at(2)) == [.stop("free.target")])
    units.note(.stop("free.target"), isDone: false, at: self.at(2))
    // A status restarts the delays.
    #expect(units.due == self.at(32))
    #expect(units.elapse(at: self.at(31)) == [])
    #expect(units.elapse(at: self.at(32)) == [.stop("free.target")])
    units.note(.stop("free.target"), isDone: false, at: self.at(32))
    #expect(units.due == self.at(92))
    #expect(units.elapse(at: self.at(92)) == [.stop("free.target")])
    units.note(.stop("free.target"), isDone: true, at: self.at(92))
    #expect(units.due == nil)
    // The delays end at an hour.
    _ = units.note(Self.free, at: self.at(200))
    for _ in 0..<20 {
      units.note(.start("free.target"), isDone: false, at: self.at(1000))
      #expect(units.elapse(at: self.at(1000)) == [])
      #expect(units.elapse(at: self.at(4600)) == [.start("free.target")])
    }
  }

  @Test("rules of conditions and a unit are parsed")
  func reading() throws {
    let rule = try UnitSupervisor.Rule(reading: "online,not-metered=a=b.service")
    #expect(rule.unit == "a=b.service")
    #expect(rule.conditions.map(\.description) == ["online", "not-metered"])
    for text in ["", "=", "online", "online=", "=a.target", "online,=a.target", "online=--now"] {
      #expect(throws: (any Error).self) { try UnitSupervisor.Rule(reading: text) }
    }
  }
}
