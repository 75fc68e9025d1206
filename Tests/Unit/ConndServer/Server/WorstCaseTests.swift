import Foundation
import TestKit
import Testing
import UnixTransport

@testable import ConndServer

@Suite("Worst case")
struct WorstCaseTests {
  /// The maximum costs of single things, in bytes, rounded up. With the release build,
  /// `Tests/Oracles/storms/weigh` measures them.
  private enum Cost {
    /// connd alone, on a cold start: its history, and the part of its program that was read.
    static let base = 40 << 20
    /// 57,331 if the client reads nothing: the session, the data that the socket did not take, and
    /// the kernel's part.
    static let connection = 60 << 10
    /// 21,676 for `WatchPath`, the most expensive call, and what it may keep without asking.
    static let stream = 22 << 10 + CallMemory.free
    /// 1,465, and room for a path that the client knows. Unread messages are pending memory.
    static let flow = 2 << 10
    static let question = 2 << 10
  }

  /// The memory of the unit that must be left, for fragments of the heap and for surprises.
  private static let margin = 64 << 20

  private static func unit() throws -> String {
    try String(contentsOfFile: Checkout.path("systemd/connd.service"), encoding: .utf8)
  }

  private static func setting(_ name: String, _ suffix: String) throws -> Int {
    let match = try Self.unit().firstMatch(of: try Regex("\n\(name)=(\\d+)\(suffix)\n"))
    return try #require(match?.output[1].substring.flatMap { Int($0) }, "\(name)")
  }

  @Test("D4 clients take all that the default limits allow → 64 MiB of the unit's memory are left")
  func memory() throws {
    let limits = Limits()
    let parts = [
      Cost.base, limits.connections * Cost.connection, limits.streams * Cost.stream,
      limits.flows * Cost.flow, limits.questions * Cost.question, limits.pendingMemory,
    ]
    let most = try Self.setting("MemoryMax", "M") << 20
    #expect(
      parts.reduce(0, +) + Self.margin <= most, "\(parts.map { $0 >> 20 }) MiB of \(most >> 20)")
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
