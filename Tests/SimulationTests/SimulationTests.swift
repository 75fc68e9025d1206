import Glibc
import Testing

/// A failure names the seed, which replays it: `make simulate SEED=…`.
@Suite("Simulation")
struct SimulationTests {
  @Test("D8 whatever the kernel does, what clients know is what is so, or they are told of a gap")
  func seeds() async {
    let steps = Setting.steps
    await withTaskGroup(of: Void.self) { group in
      for half in 0...1 {
        group.addTask {
          for seed in Setting.seeds where seed % 2 == UInt64(half) {
            if await Self.isBroken(seed, steps) { return }
          }
        }
      }
    }
  }

  /// A seed that fails is played again, to tell what happened.
  private static func isBroken(_ seed: UInt64, _ steps: Int) async -> Bool {
    let simulation = Simulation(seed: seed)
    await simulation.run(steps: steps)
    guard let broken = simulation.broken else { return false }
    let replay = Simulation(seed: seed, isTraced: true)
    await replay.run(steps: steps)
    let trace = (replay.trace ?? []).suffix(Setting.traced).joined(separator: "\n")
    Issue.record(
      "seed \(seed), step \(simulation.steps): \(broken)\n\(trace)\nmake simulate SEED=\(seed) STEPS=\(steps)"
    )
    return true
  }

  @Test("I7 a seed decides everything")
  func repeatable() async throws {
    for seed: UInt64 in [1, 2, 3] {
      let (first, second) = (
        Simulation(seed: seed, isTraced: true), Simulation(seed: seed, isTraced: true)
      )
      await first.run(steps: 200)
      await second.run(steps: 200)
      let (trace, again) = (try #require(first.trace), try #require(second.trace))
      let pair = zip(trace, again).first { $0 != $1 }
      if let pair { Issue.record("\(pair.0)\n\(pair.1)") }
      // One may go on where the other has ended.
      #expect(trace.count == again.count)
      #expect(first.steps == second.steps)
    }
  }
}

/// What the environment says.
enum Setting {
  static let steps = number("SIMULATION_STEPS") ?? 150
  static let tellsMutations = getenv("SIMULATION_MUTATIONS") != nil
  static let traced = number("SIMULATION_TRACE") ?? 40

  static var seeds: ClosedRange<UInt64> {
    if let seed = number("SIMULATION_SEED") { return UInt64(seed)...UInt64(seed) }
    let first = UInt64(number("SIMULATION_FIRST") ?? 1)
    return first...first + UInt64(number("SIMULATION_SEEDS") ?? 100) - 1
  }

  private static func number(_ name: String) -> Int? {
    getenv(name).flatMap { Int(String(cString: $0)) }
  }
}
