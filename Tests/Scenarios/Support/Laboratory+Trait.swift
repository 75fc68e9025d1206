import TestKit
import Testing

/// A trait for tests with real processes in namespaces. They are skipped if no namespace can be
/// created. They run on threads of their own, a few at a time, because they block: on the threads
/// of Swift's pool they would hold up the other tests.
struct LaboratoryTrait: SuiteTrait, TestTrait, TestScoping {
  var isRecursive: Bool { true }

  func scopeProvider(for test: Test, testCase: Test.Case?) -> Self? {
    testCase == nil ? nil : self
  }

  func provideScope(
    for test: Test, testCase: Test.Case?,
    performing function: @Sendable () async throws -> Void
  ) async throws {
    try await withTaskExecutorPreference(BlockingExecutor.shared) { try await function() }
  }
}

extension Trait where Self == LaboratoryTrait {
  static var laboratory: Self { LaboratoryTrait() }
}

extension Trait where Self == ConditionTrait {
  static var needsNamespaces: Self {
    .enabled(
      if: NetworkNamespace.isEnabled,
      "no network namespace can be made here: \(NetworkNamespace.obstacle ?? "")")
  }
}
