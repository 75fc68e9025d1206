import Foundation
import Testing
import UnixTransport

@testable import ConndServer

@Suite("Worst case")
struct WorstCaseTests {
  /// The maximum costs of single things, in bytes. `Tests/storms/adversary` measures them together.
  private enum Cost {
    /// connd alone, on a cold start, with its history.
    static let base = 40 << 20
    /// The session, the data that the socket did not take (``Reactor``), and the kernel's part
    /// (`UnixServer.sendBuffer`, which the kernel doubles).
    static let connection = 14 << 10 + 48 << 10 + 32 << 10
    /// The call and its task, its request, and what it may keep without asking, twice for `Guard`.
    static func stream(_ limits: Limits) -> Int {
      24 << 10 + limits.messageSize + 2 * CallMemory.free
    }
    /// The flow, and the unread messages about it.
    static let flow = 3 << 10
    static let question = 2 << 10
  }

  private static func unit() throws -> String {
    let root = #filePath.split(separator: "/").dropLast(3).joined(separator: "/")
    return try String(contentsOfFile: "/\(root)/systemd/connd.service", encoding: .utf8)
  }

  private static func setting(_ name: String, _ suffix: String) throws -> Int {
    let match = try Self.unit().firstMatch(of: try Regex("\n\(name)=(\\d+)\(suffix)\n"))
    return try #require(match?.output[1].substring.flatMap { Int($0) }, "\(name)")
  }

  @Test("D4 clients take all that the default limits allow → it fits into the unit's memory")
  func memory() throws {
    let limits = Limits()
    let parts = [
      Cost.base, limits.connections * Cost.connection, limits.streams * Cost.stream(limits),
      limits.flows * Cost.flow, limits.questions * Cost.question, limits.pendingMemory,
    ]
    let most = try Self.setting("MemoryMax", "M") << 20
    #expect(parts.reduce(0, +) < most, "\(parts.map { $0 >> 20 }) MiB of \(most >> 20)")
  }

  @Test("connd is killed every two seconds → systemd starts it again each time")
  func restarts() throws {
    let (interval, burst) = (
      try Self.setting("StartLimitIntervalSec", "s"), try Self.setting("StartLimitBurst", "")
    )
    // systemd refuses a start after `burst` starts within the interval (ratelimit_below).
    #expect(2 * burst > interval)
    #expect(try Self.unit().contains("\nRestart=on-failure\n"))
    // A connd that cannot start exits soon, and is not restarted forever.
    #expect(burst < interval * 2)
  }
}
