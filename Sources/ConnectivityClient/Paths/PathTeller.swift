internal import NIOCore
private import Synchronization

/// Tells what the path is, and keeps quiet about short absences of connd.
///
/// Used on one event loop.
final class PathTeller: Sendable {
  private struct State {
    /// What connd said last.
    var known: NetworkPath?
    /// Ends the patience.
    var timer: Scheduled<Void>?
  }

  private let patience: TimeAmount
  private let eventLoop: any EventLoop
  private let put: @Sendable ([NetworkPath]) -> Void
  private let state = Mutex(State())

  /// - Parameters:
  ///   - patience: How long connd may be silent before its first word, and be away after it, until the path is told
  ///     to be unknown.
  ///   - put: Told what the path was and became.
  init(
    patience: Duration, on eventLoop: any EventLoop,
    _ put: @escaping @Sendable ([NetworkPath]) -> Void
  ) {
    self.put = put
    self.patience = TimeAmount(patience)
    self.eventLoop = eventLoop
    self.startTimer()
  }

  func tell(_ event: PathEvent) {
    switch event {
    case .path(let path, let interrupted):
      self.stopTimer(knowing: path)
      self.put(interrupted ? [.interrupted, path] : [path])
    case .found:
      // It may have been told to be unknown meanwhile. Before connd's first word there is nothing to go back to.
      guard let known = self.state.withLock({ $0.known }) else { return }
      self.stopTimer(knowing: known)
      self.put([known])
    case .lost:
      if self.state.withLock({ $0.known }) == nil {
        self.stopTimer(knowing: nil)
        self.put([.unknown])
      } else {
        self.startTimer()
      }
    }
  }

  /// Tells nothing more.
  func finish() {
    self.stopTimer(knowing: nil)
  }

  private func startTimer() {
    let timer = self.eventLoop.scheduleTask(in: self.patience) { [put] in
      put([.unknown])
    }
    let old = self.state.withLock { state in
      defer { state.timer = timer }
      return state.timer
    }
    old?.cancel()
  }

  private func stopTimer(knowing path: NetworkPath?) {
    let timer = self.state.withLock { state in
      defer { (state.known, state.timer) = (path, nil) }
      return state.timer
    }
    timer?.cancel()
  }
}
