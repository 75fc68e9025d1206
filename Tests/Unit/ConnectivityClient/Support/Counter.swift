import Synchronization

/// A number that several threads increase.
final class Counter: Sendable {
  private let value = Atomic(0)

  var count: Int { self.value.load(ordering: .sequentiallyConsistent) }

  /// Returns the new number.
  @discardableResult
  func increase() -> Int { self.value.add(1, ordering: .sequentiallyConsistent).newValue }
}
