/// The sequences that receive the states or the events of a channel. A slow reader receives only
/// the last 64.
struct Observers<Element: Sendable>: Sendable {
  private var continuations: [UInt64: AsyncStream<Element>.Continuation] = [:]
  private var lastID: UInt64 = 0

  /// - Parameter first: The element to begin with, or `nil` to begin with the next one.
  mutating func add(first: Element?) -> (AsyncStream<Element>, Observer<Element>) {
    // A slow observer needs only the most recent elements.
    let (elements, continuation) = AsyncStream.makeStream(
      of: Element.self, bufferingPolicy: .bufferingNewest(64))
    self.lastID += 1
    self.continuations[self.lastID] = continuation
    if let first { continuation.yield(first) }
    return (elements, Observer(id: self.lastID, continuation: continuation))
  }

  func yield(_ element: Element) {
    for continuation in self.continuations.values { continuation.yield(element) }
  }

  mutating func remove(_ id: UInt64) { self.continuations[id] = nil }

  /// Removes all sequences. Finish the returned ones outside the lock, because their end takes the
  /// lock.
  mutating func removeAll() -> [AsyncStream<Element>.Continuation] {
    defer { self.continuations = [:] }
    return Array(self.continuations.values)
  }
}

/// One sequence of ``Observers``.
struct Observer<Element: Sendable>: Sendable {
  let id: UInt64
  let continuation: AsyncStream<Element>.Continuation
}
