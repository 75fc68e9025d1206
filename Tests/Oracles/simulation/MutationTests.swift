import TestTraits
import Testing

/// Checks the invariants themselves: a connd that breaks one rule must be caught.
@Suite("Mutations", .blocking)
struct MutationTests {
  /// The seeds and the number of steps, tried one after the other.
  private static let seeds: ClosedRange<UInt64> = 1...80
  private static let steps = 400

  @Test(
    "D8 a connd that breaks a rule is caught", .needsAll("two minutes"),
    arguments: Mutation.allCases)
  func isCaught(_ mutation: Mutation) async {
    for seed in Self.seeds {
      let simulation = Simulation(seed: seed, mutation: mutation)
      await simulation.run(steps: Self.steps)
      guard let broken = simulation.broken else { continue }
      // A seed that also breaks without the mutation does not count.
      let sound = Simulation(seed: seed)
      await sound.run(steps: simulation.steps)
      guard sound.broken == nil else { continue }
      if Setting.tellsMutations {
        print("| \(mutation) | \(seed) | \(simulation.steps) | \(broken.prefix(100)) |")
      }
      return
    }
    Issue.record("\(mutation) gets through")
  }
}
