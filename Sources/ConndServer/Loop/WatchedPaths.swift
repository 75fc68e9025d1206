import Connectivity
import DequeModule

/// The destinations of the paths that clients watch, each with the path that was last reported.
///
/// The destinations are evaluated in slices, so that kernel messages are read in between.
struct WatchedPaths {
  private var reported: [Destination: KernelPath] = [:]
  /// The destinations that have not been evaluated since the last event.
  private var due: Deque<Destination> = []

  private static let slice = 32

  var addresses: Set<IPAddress> { Set(self.reported.keys.map(\.address)) }

  var count: Int { self.reported.count }

  var isBusy: Bool { !self.due.isEmpty }

  /// Marks all destinations as due. Destinations that were due before stay in front, so that each
  /// is evaluated even if changes never stop.
  mutating func examineAll() {
    let due = Set(self.due)
    self.due += self.reported.keys.lazy.filter { !due.contains($0) }
  }

  /// Marks the destinations of some users as due.
  mutating func examine(trafficOf users: Set<UInt32>) {
    let due = Set(self.due)
    self.due += self.reported.keys.lazy.filter { users.contains($0.uid) && !due.contains($0) }
  }

  /// Removes and returns the next destinations to evaluate.
  mutating func takeSlice() -> [Destination] {
    var slice: [Destination] = []
    while slice.count < Self.slice, let next = self.due.popFirst() {
      if self.reported[next] != nil { slice.append(next) }
    }
    return slice
  }

  /// Records the path that is reported for a destination, and begins to watch it if necessary.
  ///
  /// - Returns: Whether the path is new to the clients that already watch the destination.
  @discardableResult
  mutating func tell(_ path: KernelPath, of destination: Destination) -> Bool {
    self.reported.updateValue(path, forKey: destination) != path
  }

  mutating func forget(_ destination: Destination) { self.reported[destination] = nil }

  /// Resets all paths to unknown.
  ///
  /// - Returns: The destinations that had a known path before.
  mutating func lose() -> [Destination] {
    self.due = []
    let known = self.reported.filter { $0.value.status != .unknown }.map(\.key)
    for destination in known { self.reported[destination] = .unknown }
    return known
  }
}
