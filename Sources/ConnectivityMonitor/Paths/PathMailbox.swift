private import Synchronization

/// Paths that wait to be read by one task. Adding never blocks.
final class PathMailbox: Sendable {
  private struct State {
    var backlog = PathBacklog()
    var receiver: CheckedContinuation<NetworkPath?, Never>?
    var isFinished = false
  }

  private let state = Mutex(State())

  /// Adds the path's intermediate and current states, in this order.
  func put(_ paths: [NetworkPath]) {
    let ready = self.state.withLock {
      state -> (CheckedContinuation<NetworkPath?, Never>, NetworkPath)? in
      for path in paths { state.backlog.add(path) }
      guard let receiver = state.receiver, let path = state.backlog.next() else { return nil }
      state.receiver = nil
      return (receiver, path)
    }
    if let (receiver, path) = ready { receiver.resume(returning: path) }
  }

  /// Returns the next path, or `nil` after ``finish()``. At most one task may wait.
  func next(isolation: isolated (any Actor)? = #isolation) async -> NetworkPath? {
    await withCheckedContinuation { receiver in
      let (path, waits) = self.state.withLock { state -> (NetworkPath?, Bool) in
        if state.isFinished || state.receiver != nil { return (nil, false) }
        if let path = state.backlog.next() { return (path, false) }
        state.receiver = receiver
        return (nil, true)
      }
      if !waits { receiver.resume(returning: path) }
    }
  }

  /// Ends the sequence.
  func finish() {
    let receiver = self.state.withLock { state in
      defer { (state.receiver, state.isFinished) = (nil, true) }
      return state.receiver
    }
    receiver?.resume(returning: nil)
  }
}

/// The unread states of the path, reduced to the last loss and the current path.
struct PathBacklog: Hashable, Sendable {
  /// The last path that was read.
  private var reported: NetworkPath?
  /// The last unread loss.
  private var loss: NetworkPath?
  /// The current path, if it is not a loss.
  private var latest: NetworkPath?

  mutating func add(_ path: NetworkPath) {
    if path.isOnline {
      self.latest = path
    } else {
      (self.loss, self.latest) = (path, nil)
    }
  }

  /// Returns the next path to read, or `nil` if no unread path differs from the last one read.
  mutating func next() -> NetworkPath? {
    // If the reader has read no path yet, or last read a loss, the unread loss is skipped and only
    // the current path is returned.
    if self.latest != nil, self.reported?.isOnline != true { self.loss = nil }
    for path in [self.loss, self.latest] {
      guard let path else { continue }
      if path.isOnline { self.latest = nil } else { self.loss = nil }
      if self.reported.map(path.isNew(after:)) ?? true {
        self.reported = path
        return path
      }
    }
    return nil
  }
}
