import Connectivity

@testable import ConndServer

/// A client of the stream that knows only what it has received, and reads irregularly.
struct StreamClient {
  /// It reads once in this many steps.
  let laziness: Int
  /// The sum of its messages, or `nil` before the first one.
  private(set) var known: ConnectivitySnapshot?
  private(set) var gaps = 0
  private var subscriber: Subscriber?

  init(laziness: Int) { self.laziness = laziness }

  var isConnected: Bool { self.subscriber != nil }

  /// - Parameter asNew: whether it has forgotten everything.
  mutating func connect(to store: Store, asNew: Bool = false) {
    if asNew { self.known = nil }
    self.subscriber = store.admit(since: self.known?.generation)
  }

  mutating func disconnect(from store: Store?) {
    if let subscriber = self.subscriber { store?.leave(subscriber) }
    self.subscriber = nil
  }

  /// Reads everything available.
  ///
  /// - Returns: a description of the fault, or `nil`.
  mutating func read(from store: Store) -> String? {
    guard var subscriber = self.subscriber else { return nil }
    defer { self.subscriber = subscriber }
    while let reading = store.next(for: &subscriber) {
      switch reading {
      case .snapshot(let snapshot):
        if self.known != nil { return "D5: a second snapshot" }
        self.known = snapshot
      case .gap(let snapshot):
        self.gaps += 1
        if let known = self.known, known.generation < snapshot.generation,
          store.past.first.map({ $0.change.generation <= known.generation + 1 }) ?? false
        {
          return "D5: a gap where the history reaches"
        }
        self.known = snapshot
      case .changes(let changes):
        for published in changes {
          if let wrong = self.apply(published.change) { return wrong }
        }
      case .finished: return "D5: the stream ended"
      }
    }
    return self.known == store.snapshot ? nil : "D5: what was told does not add up to the present"
  }

  private mutating func apply(_ change: ConnectivityChange) -> String? {
    guard let known = self.known else { return "D5: a change before the snapshot" }
    if change.generation != known.generation + 1 {
      return "I9: generation \(change.generation) after \(known.generation)"
    }
    if case .transition(let transition) = change, transition.from != known.status.category {
      return "T4: a transition from \(transition.from), known was \(known.status.category)"
    }
    self.known?.apply(change)
    return nil
  }
}
