import Connectivity
import ConnectivityJSON
import Glibc
import LinuxSupport
import ModelRoutes
import Netlink
import TestKit
import TestTraits
import Testing

@testable import ConndServer

/// A failure names the seed, which replays it: `make simulate SEED=…`.
@Suite("Simulation", .blocking)
struct SimulationTests {
  @Test("D8 whatever the kernel does, clients know the present state, or get a gap")
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

  /// Plays a seed; one that fails is played again with a trace.
  private static func isBroken(_ seed: UInt64, _ steps: Int) async -> Bool {
    let simulation = Simulation(seed: seed, from: Setting.network)
    await simulation.run(steps: steps)
    guard let broken = simulation.broken else { return false }
    let replay = Simulation(seed: seed, from: Setting.network, isTraced: true)
    await replay.run(steps: steps)
    let trace = (replay.trace ?? []).suffix(Setting.traced).joined(separator: "\n")
    let saved = await self.saved(seed, steps, broken)
    Issue.record(
      "seed \(seed), step \(simulation.steps): \(broken)\n\(trace)\nmake simulate SEED=\(seed) STEPS=\(steps)\n\(saved)"
    )
    return true
  }

  /// Plays it once more behind netlink's bytes, and saves connd's input and queries since its last
  /// start.
  private static func saved(_ seed: UInt64, _ steps: Int, _ broken: String) async -> String {
    let path = "\(Setting.directory)/seed-\(seed).recording"
    let writer = Writer(path: path)
    let simulation = Simulation(seed: seed, from: Setting.network, writer: writer)
    await simulation.run(steps: steps)
    writer.end()
    if let again = simulation.broken {
      return "connd --replay \(path)\(again == broken ? "" : " (there it is: \(again))")"
    }
    return
      "\(path) holds the same steps, by which nothing is broken: the fault is not to be seen in netlink's bytes"
  }

  @Test(
    "D8 a recorded simulation replays to what connd published in it",
    arguments: 1...12 as ClosedRange<UInt64>)
  func recordings(_ seed: UInt64) async throws {
    let directory = try TemporaryDirectory()
    let writer = Writer(path: "\(directory.path)/it.recording")
    let simulation = Simulation(seed: seed, writer: writer)
    await simulation.run(steps: 120)
    writer.end()
    #expect(simulation.broken == nil)
    let recording = try Recording(contents(of: writer.path, max: 1 << 26))
    let first = recording.header.restored.generation
    let published = simulation.daemon.store.past.map(\.change).filter { $0.generation > first }
    var (lines, complaints): ([String], [String]) = ([], [])
    try Replay(recording, print: { lines.append($0) }, complain: { complaints.append($0) }).run()
    let told = lines.filter { !$0.hasPrefix("{\"event\": \"snapshot\"") }
    let expected = published.map { JSON.event($0).line(terminator: "\n") }.suffix(told.count)
    #expect(told == Array(expected))
    #expect(!told.isEmpty)
    #expect(complaints.isEmpty)
  }

  @Test(
    "D8 a recorded machine is a valid beginning",
    arguments: Setting.recordings)
  func beginnings(_ name: String) async throws {
    let network = try Setting.network(of: "\(Setting.folder)/\(name)")
    #expect(network.links.count > 1)
    #expect(network.routes.contains { $0.prefix.length == 0 })
    for seed: UInt64 in 1...3 {
      let simulation = Simulation(seed: seed, from: network)
      await simulation.run(steps: 80)
      #expect(simulation.broken == nil, "\(name), seed \(seed), step \(simulation.steps)")
    }
  }

  @Test("I7 a seed determines everything")
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
      // One may continue where the other has ended.
      #expect(trace.count == again.count)
      #expect(first.steps == second.steps)
    }
  }
}

/// Settings from the environment.
enum Setting {
  static let steps = number("SIMULATION_STEPS") ?? 150
  static let tellsMutations = getenv("SIMULATION_MUTATIONS") != nil
  static let traced = number("SIMULATION_TRACE") ?? 40
  /// The directory for recordings of failing seeds.
  static let directory = text("SIMULATION_DIRECTORY") ?? "/tmp"
  /// The first network of every seed, or `nil` if the seed decides.
  static let network = text("SIMULATION_RECORDING").flatMap { try? network(of: $0) }

  static let folder = Checkout.path("Tests/Fixtures/recordings")

  /// The recordings of Tests/Fixtures/recordings.
  static let recordings: [String] = {
    let names = (try? MachineFiles().answer(FileQuestion(.names, folder)).get()) ?? []
    return names.split(separator: 0).map { String(decoding: $0, as: UTF8.self) }
      .filter { $0.hasSuffix(".recording") }.sorted()
  }()

  static func network(of file: String) throws -> ModelNetwork {
    try ModelNetwork(Recording(contents(of: file, max: 1 << 26)))
  }

  static var seeds: ClosedRange<UInt64> {
    if let seed = number("SIMULATION_SEED") { return UInt64(seed)...UInt64(seed) }
    let first = UInt64(number("SIMULATION_FIRST") ?? 1)
    return first...first + UInt64(number("SIMULATION_SEEDS") ?? 100) - 1
  }

  private static func number(_ name: String) -> Int? { text(name).flatMap { Int($0) } }

  private static func text(_ name: String) -> String? {
    getenv(name).map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
  }
}
