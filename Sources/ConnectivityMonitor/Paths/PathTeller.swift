private import Synchronization

/// Reports the path, and hides short absences of connd.
///
/// Must be used on the thread of the connections to connd.
final class PathTeller: Sendable {
  private struct State {
    /// The last path that connd reported.
    var known: NetworkPath?
    /// Reports the path as unknown when it expires.
    var timer: ClientThread.Timer?
  }

  private let maxWait: Duration
  private let startTimer: ClientThread.TimerStart
  private let put: @Sendable ([NetworkPath]) -> Void
  private let state = Mutex(State())

  /// - Parameters:
  ///   - maxWait: How long connd may be silent at first, or absent later, before the path is
  ///     reported as unknown.
  ///   - startTimer: Runs work later, on the same thread.
  ///   - put: Receives the path's intermediate and current states.
  init(
    maxWait: Duration, _ startTimer: @escaping ClientThread.TimerStart,
    _ put: @escaping @Sendable ([NetworkPath]) -> Void
  ) {
    self.put = put
    self.maxWait = maxWait
    self.startTimer = startTimer
    self.beginAbsence()
  }

  func tell(_ event: PathEvent) {
    switch event {
    case .path(let path, let interrupted):
      self.stopTimer(knowing: path)
      self.put(interrupted ? [.interrupted, path] : [path])
    case .found:
      // The path may have been reported as unknown in the meantime. Before connd's first report, no
      // path is known. Changes during the absence follow immediately.
      guard let known = self.state.withLock({ $0.known }) else { return }
      self.replaceTimer(after: Self.maxCatchUp) { [put] in put([known]) }
    case .lost:
      if self.state.withLock({ $0.known }) == nil {
        self.stopTimer(knowing: nil)
        self.put([.unknown])
      } else {
        self.beginAbsence()
      }
    }
  }

  /// Stops reporting.
  func finish() {
    self.stopTimer(knowing: nil)
  }

  /// How long connd may take, after it is back, to report the changes that the client has missed.
  /// A guess: it sends them when it accepts the request.
  private static let maxCatchUp = Duration.milliseconds(100)

  private func beginAbsence() {
    self.replaceTimer(after: self.maxWait) { [put] in put([.unknown]) }
  }

  /// Starts a timer instead of the running one.
  private func replaceTimer(after delay: Duration, _ work: @escaping @Sendable () -> Void) {
    let timer = self.startTimer(delay, work)
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
