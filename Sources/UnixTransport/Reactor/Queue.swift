package import DequeModule

/// A first-in, first-out queue that returns its memory when it becomes empty. A `Deque` keeps its
/// largest buffer, so one client's burst would occupy memory after all clients have left.
///
/// Implements rule D4.
package struct Queue<Element> {
  @usableFromInline var elements: Deque<Element> = []
  /// The maximum number of elements since the buffer was empty.
  @usableFromInline var peak = 0
  /// An empty queue keeps a buffer for at most about this many elements.
  @usableFromInline static var maxIdle: Int { 64 }

  @inlinable package init() {}

  @inlinable package var isEmpty: Bool { self.elements.isEmpty }
  @inlinable package var count: Int { self.elements.count }

  @inlinable package mutating func append(_ element: Element) {
    self.elements.append(element)
    self.peak = max(self.peak, self.elements.count)
  }

  @inlinable package mutating func append(contentsOf more: some Sequence<Element>) {
    self.elements.append(contentsOf: more)
    self.peak = max(self.peak, self.elements.count)
  }

  /// Inserts elements that precede those in the queue.
  @inlinable package mutating func prepend(contentsOf more: some Collection<Element>) {
    self.elements.prepend(contentsOf: more)
    self.peak = max(self.peak, self.elements.count)
  }

  @inlinable package mutating func popFirst() -> Element? {
    let first = self.elements.popFirst()
    self.releaseIfEmpty()
    return first
  }

  /// Returns the first elements, which stay in the queue.
  @inlinable package func prefix(_ maxCount: Int) -> [Element] {
    Array(self.elements.prefix(maxCount))
  }

  /// Removes and returns the first elements.
  @inlinable package mutating func popFirst(_ maxCount: Int) -> [Element] {
    let first = Array(self.elements.prefix(maxCount))
    self.elements.removeFirst(first.count)
    self.releaseIfEmpty()
    return first
  }

  /// Removes and returns the elements that satisfy the predicate.
  @inlinable package mutating func remove(where isChosen: (Element) -> Bool) -> [Element] {
    let chosen = self.elements.filter(isChosen)
    guard !chosen.isEmpty else { return [] }
    self.elements.removeAll(where: isChosen)
    self.releaseIfEmpty()
    return Array(chosen)
  }

  @inlinable mutating func releaseIfEmpty() {
    guard self.peak > Self.maxIdle, self.elements.isEmpty else { return }
    (self.elements, self.peak) = ([], 0)
  }
}
