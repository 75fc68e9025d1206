import ConnectivityRules
import Testing

@testable import ConndServer

extension CostsTests {
  /// Returns the copy for a user: `network constrained`, `eth0 expensive`.
  private mutating func copy(of user: UInt32?) throws -> OverrideFile.Contents {
    guard case .copy(let contents) = try self.loop.answer(.copy(of: user)).get() else {
      return OverrideFile.Contents()
    }
    return contents
  }

  @Test("a copy of the overrides has those of one user only, unless all users are requested")
  mutating func users() throws {
    try self.set(.link("eth0"), expensive: .on, by: 1000)
    try self.set(.link("wlan0"), expensive: .on, by: 1001)
    #expect(try self.copy(of: 1000).overrides.all.keys.map { $0 } == [.link("eth0")])
    #expect(try self.copy(of: 1002).overrides.all.isEmpty)
    #expect(try self.copy(of: nil).overrides.all.count == 2)
  }

  @Test("a copy of the overrides has another key, and hashes of the same networks with it")
  mutating func key() throws {
    // The current network, one that the user named, and one that only a hash names.
    try self.set(.network("192.0.2.1"), constrained: .on, end: .boot)
    try self.set(.network("Home"), expensive: .on)
    try self.set(.network("00112233aabbccdd"), expensive: .on)
    let copy = try self.copy(of: 1000)
    let named = copy.key.hashes(ofName: "Home").map { CostOverrides.Subject.network($0) }
    let current = CostOverrides.Subject.network(
      copy.key.hash(ofGateway: [2, 0, 0, 0, 0, 1]))
    #expect(Set(copy.overrides.all.keys) == Set(named + [current]))
    #expect(copy.key != self.loop.loop.engine.costs.key)
    // The second connd may not know the boot.
    #expect(copy.overrides[current]?.constrained == .on)
    let text = OverrideFile.text(copy, boot: "")
    #expect(try OverrideFile.read(Array(text.utf8), boot: "") == copy)
  }
}
