private import Synchronization

/// What waits to be read by one task. Putting never waits.
final class PathMailbox: Sendable {
  private struct State {
    var backlog = PathBacklog()
    var receiver: CheckedContinuation<NetworkPath?, Never>?
    var isFinished = false
  }

  private let state = Mutex(State())

  /// Puts what the path was and became, at once and in this order.
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

  /// The next path; `nil` after ``finish()``. At most one task may wait.
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

  /// Nothing is to be read any more.
  func finish() {
    let receiver = self.state.withLock { state in
      defer { (state.receiver, state.isFinished) = (nil, true) }
      return state.receiver
    }
    receiver?.resume(returning: nil)
  }
}

/// What is to be told of all that the path was since somebody last asked: what it is, and before that, that it was
/// lost.
struct PathBacklog: Hashable, Sendable {
  /// What was told last.
  private var told: NetworkPath?
  /// The last loss since then.
  private var loss: NetworkPath?
  /// What the path is, where that is no loss.
  private var latest: NetworkPath?

  mutating func add(_ path: NetworkPath) {
    if path.isOnline {
      self.latest = path
    } else {
      (self.loss, self.latest) = (path, nil)
    }
  }

  /// The next path to be told; `nil` where that would be the one that was told last.
  mutating func next() -> NetworkPath? {
    // The first path told is the present one. And whoever knows of a loss need not hear of another that is over.
    if self.latest != nil, self.told?.isOnline != true { self.loss = nil }
    for path in [self.loss, self.latest] {
      guard let path else { continue }
      if path.isOnline { self.latest = nil } else { self.loss = nil }
      if path != self.told {
        self.told = path
        return path
      }
    }
    return nil
  }
}
