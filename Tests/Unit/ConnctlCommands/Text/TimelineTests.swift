import Connectivity
import Testing

@testable import ConnctlCommands

@Suite("connctl history --graph")
struct TimelineTests {
  private static func transition(
    _ from: NetworkCategory, _ to: NetworkCategory, _ seconds: Int64,
    bounced: Bool = false
  ) -> ConnectivityChange {
    var transition = ConnectivityChange.Transition.sample
    (transition.from, transition.to, transition.bounced) = (from, to, bounced)
    transition.time = .sample.adding(seconds: seconds)
    return .transition(transition)
  }

  private static func invalidation(
    _ severity: Invalidation.Severity, _ seconds: Int64
  ) -> ConnectivityChange {
    var invalidation = Invalidation.sample
    invalidation.severity = severity
    invalidation.time = .sample.adding(seconds: seconds)
    return .invalidation(invalidation)
  }

  private static let entries = [
    transition(.wired, .offline, 0), invalidation(.destroy, 0), invalidation(.destroy, 0),
    transition(.offline, .wifi, 2), transition(.wifi, .wired, 900), invalidation(.drain, 900),
    transition(.wired, .wired, 2000, bounced: true), transition(.wired, .cellular, 3000),
    invalidation(.advise, 3000),
  ]

  private func lines(
    _ entries: [ConnectivityChange] = Self.entries, until seconds: Int64 = 3600, columns: Int = 80,
    _ glyphs: Glyphs = .unicode
  ) -> [String] {
    Timeline(entries, until: .sample.adding(seconds: seconds))?
      .lines(columns: columns, glyphs, .plain(width: columns)).map { $0.text(color: false) } ?? []
  }

  @Test("an hour in 80 columns")
  func hour() throws {
    try expectPicture(self.lines(), "history-hour")
  }

  @Test("an hour in 40 columns of ASCII")
  func narrow() throws {
    let lines = self.lines(columns: 40, .ascii)
    try expectPicture(lines, "history-ascii")
    #expect(lines.joined().unicodeScalars.allSatisfy { $0.isASCII })
  }

  @Test("days are separated")
  func days() throws {
    try expectPicture(self.lines(until: 200_000, columns: 60), "history-days")
  }

  @Test("more than nine events in a column are shown as +")
  func many() {
    let many =
      [Self.transition(.wired, .offline, 0)] + (0..<12).map { _ in Self.invalidation(.destroy, 1) }
    let line = self.lines(many).first { $0.hasPrefix("end ") }
    #expect(line?.contains("+") == true)
  }

  @Test("an empty history draws nothing; a single change can be drawn, even one in the future")
  func edges() {
    #expect(Timeline([], until: .sample) == nil)
    for seconds in [0, 1, -500] as [Int64] {
      let lines = self.lines([Self.transition(.wired, .offline, 0)], until: seconds)
      #expect(lines.count == 6, "\(lines)")
      #expect(lines.allSatisfy { $0.count <= 80 })
    }
    for columns in [1, 12, 20, 300] {
      let lines = self.lines(columns: columns)
      #expect(lines.allSatisfy { $0.count <= max(20, columns) })
    }
    let late = WallTime(microseconds: .max)
    #expect(
      Timeline(Self.entries, until: late)?.lines(columns: 80, .ascii, .plain()).count ?? 0 > 5)
  }

  @Test("the graph has the terminal's width, or 80 columns without one")
  func command() async throws {
    let shown = try await connctl("history", "--graph")
    #expect(shown.status == 0)
    #expect(shown.screen.outputLines.contains { $0.hasPrefix("losses") })
    #expect(shown.screen.outputLines.allSatisfy { $0.count <= 80 })
    let json = try await connctl("history", "--graph", "--json")
    #expect(json.status == 64)
  }
}
