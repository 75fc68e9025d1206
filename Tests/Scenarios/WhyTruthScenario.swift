import Glibc
import TestKit
import TestTraits
import Testing

/// Random combinations of faults. `connctl why` must never name a part that works.
@Suite("The part that fails, at random", .needsNamespaces, .blocking)
struct WhyTruthScenario {
  private static func setting(_ name: String) -> UInt64? {
    getenv(name).flatMap { UInt64(String(cString: $0)) }
  }

  /// The number of combinations, which `make why` sets, and the seed of the first.
  private static let count = Self.setting("CONND_WHY")
  private static let first = Self.setting("CONND_SEED") ?? 48_000

  /// How long after a fault began the answer may still be that nothing is wrong.
  private static let delay = Duration.seconds(12)

  @Test(
    "Q7 random faults at the same time → no answer is wrong",
    .enabled(if: Users.areMany, "only one user exists here"),
    arguments: Self.first..<Self.first + (Self.count ?? 3))
  func combination(seed: UInt64) throws {
    let combination = WhyCombination(seed: seed)
    let bench = try WhyBench(combination.families, ports: combination.ports.map(Int.init))
    let users = [WhyBench.user, WhyBench.other]
    try waitUntil("the traffic flows") {
      try users.allSatisfy { try bench.why(as: $0).verdict == "nothingWrong" }
    }
    try combination.cause(on: bench)
    let began = ContinuousClock.now
    var answers: [String] = []
    // Answers from the time when the faults begin are judged, too.
    for user in users {
      var named = 0
      while named < 2, began.duration(to: .now) < Self.delay {
        named += try self.judge(combination, try bench.why(as: user), user, &answers) ? 1 : 0
      }
    }
    for user in users {
      let report = try bench.why(as: user)
      _ = try self.judge(combination, report, user, &answers)
      let isLate = report.verdict == "nothingWrong" && began.duration(to: .now) > Self.delay
      #expect(!isLate || !combination.concerns(user), "\(combination): \(answers)")
      if Self.count != nil { print("why: \(report.verdict), \(combination), user \(user)") }
    }
  }

  /// Checks an answer. An answer that nothing is wrong may be too early.
  ///
  /// - Returns: Whether the answer names a part that fails.
  private func judge(
    _ combination: WhyCombination, _ report: WhyBench.Report, _ user: UInt32,
    _ answers: inout [String]
  ) throws -> Bool {
    answers.append("\(user): \(report.answer(hasHosts: true))")
    let isNamed = !["nothingWrong", "unknown"].contains(report.verdict)
    if isNamed {
      #expect(
        combination.isTrue(report, for: user), "\(combination): \(answers) \(report.evidence)")
    }
    return isNamed
  }
}
