public import Testing

/// A trait for tests that block or compute for seconds. They run on threads of their own, a few at
/// a time. Swift's pool has one thread for each processor. There, a few such tests would hold up
/// all others, and calls of the others would miss their deadlines.
public struct BlockingTrait: SuiteTrait, TestTrait, TestScoping {
  public var isRecursive: Bool { true }

  public func scopeProvider(for test: Test, testCase: Test.Case?) -> Self? {
    testCase == nil ? nil : self
  }

  public func provideScope(
    for test: Test, testCase: Test.Case?,
    performing function: @Sendable () async throws -> Void
  ) async throws {
    try await withTaskExecutorPreference(BlockingExecutor.shared) { try await function() }
  }
}

extension Trait where Self == BlockingTrait {
  public static var blocking: Self { BlockingTrait() }
}
