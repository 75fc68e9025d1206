private import Connectivity
private import ConnectivityMonitor
private import Logging
private import Synchronization

extension DiscretionaryTask.Config {
  /// The meaning of a path for the work.
  enum Verdict: Hashable {
    /// The work may use the path.
    case free
    /// The work may not use the path: work does not start, and running work yields.
    case forbidden(NetworkUnavailableError)
    /// No usable path is known: work does not start.
    case absent(NetworkUnavailableError?)
  }

  /// The networks that the work may use.
  var allowed: NetworkAccess { self.access.intersection(self.monitor.access) }

  /// Returns the verdict on a path. Both families must be allowed, because the family that the
  /// work's traffic uses is unknown.
  func verdict(on path: NetworkPath) -> Verdict {
    let access = self.allowed
    if path.category == .unknown {
      return access.refusal(of: .unknown).map { .absent($0) } ?? .free
    }
    let carrying = [path.ipv4, path.ipv6].compactMap { $0 }.filter { $0.status == .satisfied }
    let refusals = carrying.compactMap { access.refusal(of: $0) }
    if let refusal = refusals.first { return .forbidden(refusal) }
    // A path of unknown cost may cost money, so work does not start on it.
    if !access.allowsExpensiveAccess, let path = carrying.first(where: \.isCostUnknown) {
      return .absent(NetworkUnavailableError(reason: .costUnknown, path: path))
    }
    return path.isOnline ? .free : .absent(nil)
  }
}

/// The gate at which work with restrictions waits. It is open if the work may continue. Serves any
/// number of tasks.
///
/// Implements rules I8 and C8.
final class NetworkGate: Sendable {
  typealias Verdict = DiscretionaryTask.Config.Verdict

  /// The event that a task waits for.
  enum Event: Hashable {
    /// The work may continue.
    case free
    /// The work has to yield.
    case forbidden
    /// The gate received more paths than this number.
    case news(since: UInt64)
  }

  fileprivate struct State {
    struct Waiter {
      var event: Event
      var continuation: CheckedContinuation<Void, any Error>
    }

    /// The last received path, or `nil` before the first.
    var path: NetworkPath?
    var verdict = Verdict.absent(nil)
    /// The number of received paths.
    var news: UInt64 = 0
    var isOpenForGood = false
    var isExpired = false
    var isOver = false
    var waiters: [UInt64: Waiter] = [:]
    var lastNumber: UInt64 = 0
    /// The path last announced to `onWait`, or `nil` while no task waits.
    var announced: NetworkPath?
  }

  private let config: DiscretionaryTask.Config
  private let state = Mutex(State())

  init(_ config: DiscretionaryTask.Config) {
    self.config = config
  }

  /// The number of received paths.
  var news: UInt64 { self.state.withLock { $0.news } }
  /// Whether the gate is open permanently.
  var isOpenForGood: Bool { self.state.withLock { $0.isOpenForGood } }
  /// Whether the work has to yield.
  var isForbidden: Bool { self.state.withLock { $0.isForbidden } }

  // MARK: Changes

  /// Records the path's intermediate and current states.
  @Sendable func put(_ paths: [NetworkPath]) {
    for path in paths {
      self.change { state in
        state.path = path
        state.verdict = self.config.verdict(on: path)
        state.news += 1
      }
    }
  }

  /// Opens the gate permanently.
  func openForGood() { self.change { $0.isOpenForGood = true } }

  /// Records that the time limit of the wait has passed.
  func expire() { self.change { $0.isExpired = true } }

  /// Ends the run. Tasks that wait now or later are cancelled.
  func end() { self.change { $0.isOver = true } }

  private func change(_ change: (inout State) -> Void) {
    let (ready, announcement, turn, path) = self.state.withLock { state in
      let couldRun = state.mayRun
      change(&state)
      let turn = state.mayRun == couldRun ? nil : state.mayRun
      return (state.ready(), state.announcement(), turn, state.path)
    }
    self.log(turn, announcement, path)
    for (continuation, result) in ready { continuation.resume(with: result) }
    if let announcement { self.config.onWait?(announcement) }
  }

  /// - Parameters:
  ///   - mayRun: Whether the work may run, if that has changed.
  ///   - announcement: The path, if the work waits.
  private func log(_ mayRun: Bool?, _ announcement: NetworkPath?, _ path: NetworkPath?) {
    guard let logger = self.config.logger else { return }
    if let mayRun {
      let text: Logger.Message =
        mayRun ? "discretionary work may run" : "discretionary work yields"
      logger.debug(text, metadata: path.map { ["path": "\($0)"] })
    }
    if let announcement {
      logger.info("discretionary work waits", metadata: ["path": "\(announcement)"])
    }
  }

  // MARK: Waiters

  /// Returns when the event occurs, or immediately if it already has.
  ///
  /// - Throws: `CancellationError` if the task is cancelled or the run is over, even if the event
  ///   has occurred; ``DiscretionaryTask/ExpiredError`` when waiting for permission to continue.
  func wait(for event: Event, isolation: isolated (any Actor)? = #isolation) async throws {
    try Task.checkCancellation()
    let (outcome, number) = self.state.withLock { state in
      state.lastNumber += 1
      return (state.outcome(of: event), state.lastNumber)
    }
    if let outcome { return try outcome.get() }
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        self.change { $0.waiters[number] = .init(event: event, continuation: continuation) }
        // The cancellation handler may have run before the waiter was stored.
        if Task.isCancelled { self.cancel(number) }
      }
    } onCancel: {
      self.cancel(number)
    }
  }

  private func cancel(_ number: UInt64) {
    let waiter = self.state.withLock { $0.waiters.removeValue(forKey: number) }
    waiter?.continuation.resume(throwing: CancellationError())
  }
}

extension NetworkGate.State {
  /// Whether the work may start or continue.
  fileprivate var mayRun: Bool { self.isOpenForGood || self.verdict == .free }

  var isForbidden: Bool {
    if case .forbidden = self.verdict { return !self.isOpenForGood }
    return false
  }

  /// Returns the outcome for a waiter, or `nil` to keep waiting.
  func outcome(of event: NetworkGate.Event) -> Result<Void, any Error>? {
    switch event {
    case _ where self.isOver:
      .failure(CancellationError())
    case .free where self.isOpenForGood || self.verdict == .free:
      .success(())
    case .free where self.isExpired:
      // Work cannot expire before the first path is known.
      self.path.map { .failure(DiscretionaryTask.ExpiredError(path: $0, refusal: self.refusal)) }
    case .forbidden where self.isForbidden:
      .success(())
    case .news(let count) where self.news > count || self.isOpenForGood || self.isExpired:
      .success(())
    default:
      nil
    }
  }

  private var refusal: NetworkUnavailableError? {
    switch self.verdict {
    case .free: nil
    case .forbidden(let refusal): refusal
    case .absent(let refusal): refusal
    }
  }

  /// Removes and returns the waiters that are done.
  mutating func ready() -> [(CheckedContinuation<Void, any Error>, Result<Void, any Error>)] {
    var ready: [(CheckedContinuation<Void, any Error>, Result<Void, any Error>)] = []
    for (number, waiter) in self.waiters {
      guard let outcome = self.outcome(of: waiter.event) else { continue }
      self.waiters[number] = nil
      ready.append((waiter.continuation, outcome))
    }
    return ready
  }

  /// Returns the path to announce for waiting work, or `nil` if there is nothing new.
  mutating func announcement() -> NetworkPath? {
    guard let path = self.path, self.waiters.values.contains(where: { $0.event == .free }) else {
      self.announced = nil
      return nil
    }
    defer { self.announced = path }
    return self.announced.map(path.isNew(after:)) ?? true ? path : nil
  }
}
