import Connectivity
import ConnectivityTestKit
import Testing

@testable import ConnectivityClient
@testable import ConnectivityMonitor

/// Longer than any test: on a machine under load, connd may be silent for a while.
let longPatience: Duration = .seconds(3_600)

/// Work on a simulated network that reports in words what it waits for.
func discretionaryTask(
  _ network: SimulatedNetwork, _ words: Happenings,
  _ change: (inout DiscretionaryTask.Config) -> Void = { _ in }
) -> DiscretionaryTask {
  DiscretionaryTask(
    config: .defaults {
      $0.monitor = PathMonitor(.system, socket: network.socket, maxWait: longPatience)
      $0.onWait = { words.say("waits, \(word(for: $0))") }
      change(&$0)
    })
}

func word(for path: NetworkPath) -> String {
  if path.isConstrained { return "constrained" }
  return path.isExpensive == true ? "expensive" : path.status.rawValue
}

/// Events in order, for one task to read.
final class Happenings: Sendable {
  private let (words, continuation) = AsyncStream.makeStream(of: String.self)

  func say(_ word: String) { self.continuation.yield(word) }

  func next(sourceLocation: SourceLocation = #_sourceLocation) async -> String? {
    await waiting(for: "the next event", sourceLocation) { await self.words.first { _ in true } }
  }
}
