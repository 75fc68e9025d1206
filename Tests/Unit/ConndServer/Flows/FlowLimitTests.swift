import Connectivity
import ConnectivityRules
import LinuxSupport
import Testing

@testable import ConndServer

@Suite("Limits of flows")
struct FlowLimitTests {
  private static func limits(_ ofOneUser: Int) -> Limits {
    var limits = Limits()
    (limits.flows, limits.flowsPerUser) = (2 * ofOneUser, ofOneUser)
    return limits
  }

  /// Registers a user's flows until one is refused.
  ///
  /// - Returns: The number of flows, and the limit that refuses the next one.
  private static func fill(
    _ table: inout FlowTable, _ uid: UInt32, of account: Account, _ limits: Limits
  ) throws -> (count: Int, limit: String) {
    let destination = Destination(try #require(IPAddress("203.0.113.9")), uid: uid)
    for id in 1... as PartialRangeFrom<UInt64> {
      let registration = FlowTable.Registration(
        key: .init(mailbox: UInt64(uid), id: id), flow: Flow(destination))
      let request = GuardRequest(.add(registration), of: account)
      switch table.admit(request, limits, at: Instant(sinceStart: .zero)) {
      case .register(let registration): _ = table.addPending(registration, of: account)
      case .answer(.exceeds(let limit, _)): return (Int(id) - 1, limit)
      case .answer: break
      }
    }
    return (0, "")
  }

  @Test("D4 a user without a known owner guards all flows it can → another such user gets some")
  func unknownUsers() throws {
    var table = FlowTable()
    let limits = Self.limits(300)
    #expect(try Self.fill(&table, 100_000, of: .unknown, limits) == (200, "flowsPerUser"))
    #expect(try Self.fill(&table, 100_001, of: .unknown, limits) == (66, "flowsPerUser"))
    // Uids of a known owner are one user.
    let owner = Account(number: 1000)
    #expect(try Self.fill(&table, 1000, of: owner, limits).count > 0)
    #expect(try Self.fill(&table, 100_002, of: owner, limits).count == 0)
  }

  @Test("D4 the last of many flows is removed → the table returns its memory and works as before")
  func memory() throws {
    var table = FlowTable()
    let limits = Self.limits(20_480)
    let count = try Self.fill(&table, 1000, of: Account(number: 1000), limits).count
    #expect(count > 10_000 && table.flows.capacity >= count)
    for key in table.keys(of: 1000) { table.remove(key) }
    #expect(table.isEmpty && table.flows.capacity <= 1024 && table.fault == nil)
    #expect(table.entries.capacity <= 1024 && table.pending.capacity <= 1024)
    #expect(table.addresses.isEmpty && table.count(of: 1000) == 0)
    #expect(try Self.fill(&table, 1000, of: Account(number: 1000), limits).count == count)
  }
}
