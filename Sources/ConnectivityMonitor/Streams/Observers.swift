/// The sequences that receive states or events. A slow reader receives only the last 64.
package struct Observers<Element: Sendable>: Sendable {
  private var continuations: [UInt64: AsyncStream<Element>.Continuation] = [:]
  private var lastID: UInt64 = 0

  package init() {}

  /// - Parameter first: The elements to begin with.
  package mutating func add(first: [Element]) -> (AsyncStream<Element>, Observer<Element>) {
    // A slow observer needs only the most recent elements.
    let (elements, continuation) = AsyncStream.makeStream(
      of: Element.self, bufferingPolicy: .bufferingNewest(64))
    self.lastID += 1
    self.continuations[self.lastID] = continuation
    for element in first { continuation.yield(element) }
    return (elements, Observer(id: self.lastID, continuation: continuation))
  }

  package func yield(_ elements: [Element]) {
    for continuation in self.continuations.values {
      for element in elements { continuation.yield(element) }
    }
  }

  package mutating func remove(_ id: UInt64) { self.continuations[id] = nil }

  /// Removes and returns all sequences. Finish them outside the lock, because their termination
  /// handlers take the lock.
  package mutating func removeAll() -> [AsyncStream<Element>.Continuation] {
    defer { self.continuations = [:] }
    return Array(self.continuations.values)
  }
}

/// One sequence of ``Observers``.
package struct Observer<Element: Sendable>: Sendable {
  package let id: UInt64
  package let continuation: AsyncStream<Element>.Continuation
}
