import Connectivity
import DequeModule

/// The destinations whose paths clients follow, and what all who follow one were told last.
///
/// They are looked at in slices: the kernel is heard in between, however many there are.
struct WatchedPaths {
  private var told: [Destination: Path] = [:]
  /// Those that were not looked at since something happened.
  private var due: Deque<Destination> = []

  private static let slice = 32

  var addresses: Set<IPAddress> { Set(self.told.keys.map(\.address)) }

  /// Whether some are to be looked at.
  var isBusy: Bool { !self.due.isEmpty }

  /// Something has happened that may be news to anybody. Those that were due before stay in front: however much happens, it is
  /// each one's turn.
  mutating func lookAtAll() {
    let due = Set(self.due)
    self.due += self.told.keys.lazy.filter { !due.contains($0) }
  }

  /// Takes the next that are to be looked at.
  mutating func takeSlice() -> [Destination] {
    var slice: [Destination] = []
    while slice.count < Self.slice, let next = self.due.popFirst() {
      if self.told[next] != nil { slice.append(next) }
    }
    return slice
  }

  /// Follows a destination from now on, if nobody has yet. Whoever does is told this path.
  ///
  /// - Returns: whether that is news to those who follow it already.
  @discardableResult
  mutating func tell(_ path: Path, of destination: Destination) -> Bool {
    self.told.updateValue(path, forKey: destination) != path
  }

  mutating func forget(_ destination: Destination) { self.told[destination] = nil }

  /// Nothing is known any more.
  ///
  /// - Returns: those to whom that is news.
  mutating func lose() -> [Destination] {
    self.due = []
    let known = self.told.filter { $0.value.status != .unknown }.map(\.key)
    for destination in known { self.told[destination] = .unknown }
    return known
  }
}
