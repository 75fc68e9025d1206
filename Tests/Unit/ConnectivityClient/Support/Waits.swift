import Synchronization
import Testing

/// The events that a test waits for at the moment.
final class Waits: Sendable {
  @TaskLocal static var current: Waits?

  private struct State {
    var open: [Int: (event: String, sourceLocation: SourceLocation)] = [:]
    var last = 0
  }

  private let state = Mutex(State())

  fileprivate func begin(_ event: String, _ sourceLocation: SourceLocation) -> Int {
    self.state.withLock { state in
      state.last += 1
      state.open[state.last] = (event, sourceLocation)
      return state.last
    }
  }

  fileprivate func end(_ wait: Int) {
    self.state.withLock { _ = $0.open.removeValue(forKey: wait) }
  }

  /// Records an issue for each open wait, at its place in the test.
  fileprivate func record() {
    for (_, wait) in self.state.withLock({ $0.open }).sorted(by: { $0.key < $1.key }) {
      Issue.record("The test waited for \(wait.event).", sourceLocation: wait.sourceLocation)
    }
  }
}

/// Runs the body. If the test is cancelled meanwhile, as by its time limit, an issue names the
/// event.
func waiting<Result>(
  for event: @autoclosure () -> String, _ sourceLocation: SourceLocation,
  isolation: isolated (any Actor)? = #isolation, _ body: () async throws -> Result
) async rethrows -> Result {
  let waits = Waits.current
  let wait = waits?.begin(event(), sourceLocation)
  defer { if let wait { waits?.end(wait) } }
  return try await body()
}

/// A trait for tests that say what they waited for when their time limit ends them.
struct WaitsTrait: SuiteTrait, TestTrait, TestScoping {
  var isRecursive: Bool { true }

  func scopeProvider(for test: Test, testCase: Test.Case?) -> Self? {
    testCase == nil ? nil : self
  }

  func provideScope(
    for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
  ) async throws {
    let waits = Waits()
    try await Waits.$current.withValue(waits) {
      try await withTaskCancellationHandler {
        try await function()
      } onCancel: {
        waits.record()
      }
    }
  }
}

extension Trait where Self == WaitsTrait {
  static var namesWaits: Self { WaitsTrait() }
}
