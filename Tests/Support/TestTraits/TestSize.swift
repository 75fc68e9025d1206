import Glibc
public import Testing

/// The size of a run. `make test` leaves out the tests that need more than it installs, or much
/// time. `make test-all` runs all.
public enum TestSize {
  /// Whether this is `make test`.
  static let isSmall = getenv("CONND_SIZE").map { String(cString: $0) } == "small"

  /// Ends the current test as skipped in `make test`.
  ///
  /// - Parameter need: The Debian package, program or time that it needs.
  /// - Throws: In `make test`.
  public static func needsAll(_ need: String) throws {
    if self.isSmall { try Test.cancel("make test-all: \(need)") }
  }
}

extension Trait where Self == ConditionTrait {
  /// Skips the test in `make test`.
  ///
  /// - Parameter need: The Debian package, program or time that it needs.
  public static func needsAll(_ need: String) -> Self {
    .disabled(if: TestSize.isSmall, "make test-all: \(need)")
  }
}
