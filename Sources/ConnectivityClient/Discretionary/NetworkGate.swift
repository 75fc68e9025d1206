private import Connectivity
private import ConnectivitySession
private import Synchronization

extension DiscretionaryTask.Configuration {
  /// What a path means to the work.
  enum Verdict: Hashable {
    /// It may use it.
    case free
    /// It may not use it: nothing begins, and what has begun yields.
    case forbidden(NetworkUnavailable)
    /// There is none that it could use, or nobody knows of one: nothing begins.
    case absent(NetworkUnavailable?)
  }

  /// The networks that the work may use.
  var allowed: NetworkAccess { self.access.intersection(self.monitor.access) }

  /// A path of two families may be used where both may: nobody knows here by which of them the work's traffic goes.
  func verdict(on path: NetworkPath) -> Verdict {
    if path.category == .unknown {
      let unknown = NetworkUnavailable(reason: .unknown, path: Path(status: .unknown))
      return self.whenUnknown == .run ? .free : .absent(unknown)
    }
    let access = self.allowed
    let carrying = [path.ipv4, path.ipv6].compactMap { $0 }.filter { $0.status == .satisfied }
    let refusals = carrying.compactMap { access.refusal(of: $0) }
    if let refusal = refusals.first { return .forbidden(refusal) }
    // What may cost money is not free: nothing begins until it is known.
    if !access.allowsExpensiveAccess, let path = carrying.first(where: \.isCostUnknown) {
      return .absent(NetworkUnavailable(reason: .costUnknown, path: path))
    }
    return path.isOnline ? .free : .absent(nil)
  }
}

/// What work that may not use every network waits at. Open where it may go on. For any number of tasks.
final class NetworkGate: Sendable {
  typealias Verdict = DiscretionaryTask.Configuration.Verdict

  /// What somebody waits for.
  enum Event: Hashable {
    /// The work may go on.
    case free
    /// The work has to yield.
    case forbidden
    /// A path was told beyond so many.
    case news(since: UInt64)
  }

  fileprivate struct State {
    struct Waiter {
      var event: Event
      var continuation: CheckedContinuation<Void, any Error>
    }

    /// The last path that was told; `nil` before the first.
    var path: NetworkPath?
    var verdict = Verdict.absent(nil)
    /// How many paths were told.
    var news: UInt64 = 0
    var isOpenForGood = false
    var isExpired = false
    var isOver = false
    var waiters: [UInt64: Waiter] = [:]
    var lastNumber: UInt64 = 0
    /// What is known to those who asked what is waited for; `nil` while nobody waits.
    var announced: NetworkPath?
  }

  private let configuration: DiscretionaryTask.Configuration
  private let state = Mutex(State())

  init(_ configuration: DiscretionaryTask.Configuration) {
    self.configuration = configuration
  }

  /// How many paths were told.
  var news: UInt64 { self.state.withLock { $0.news } }
  /// Whether nothing is held back any more.
  var isOpenForGood: Bool { self.state.withLock { $0.isOpenForGood } }
  /// Whether the work has to yield.
  var isForbidden: Bool { self.state.withLock { $0.isForbidden } }

  // MARK: What happens

  /// The path was and became these.
  @Sendable func put(_ paths: [NetworkPath]) {
    for path in paths {
      self.change { state in
        state.path = path
        state.verdict = self.configuration.verdict(on: path)
        state.news += 1
      }
    }
  }

  /// Nothing is held back any more.
  func openForGood() { self.change { $0.isOpenForGood = true } }

  /// Who is held back has waited for too long.
  func expire() { self.change { $0.isExpired = true } }

  /// The run is over: whoever waits still, or later, is cancelled.
  func end() { self.change { $0.isOver = true } }

  private func change(_ change: (inout State) -> Void) {
    let (ready, announcement) = self.state.withLock { state in
      change(&state)
      return (state.ready(), state.announcement())
    }
    for (continuation, result) in ready { continuation.resume(with: result) }
    if let announcement { self.configuration.onWait?(announcement) }
  }

  // MARK: Those who wait

  /// Returns when the event is the case.
  ///
  /// - Throws: `CancellationError`, also where the event is the case; where the event is that the work may go on,
  ///   ``DiscretionaryTask/Expired``.
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
        // The handler may have found nobody yet.
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
  var isForbidden: Bool {
    if case .forbidden = self.verdict { return !self.isOpenForGood }
    return false
  }

  /// What becomes of who waits for the event; `nil`: it waits.
  func outcome(of event: NetworkGate.Event) -> Result<Void, any Error>? {
    switch event {
    case _ where self.isOver:
      .failure(CancellationError())
    case .free where self.isOpenForGood || self.verdict == .free:
      .success(())
    case .free where self.isExpired:
      // Before the first word nobody is held back.
      self.path.map { .failure(DiscretionaryTask.Expired(path: $0, refusal: self.refusal)) }
    case .forbidden where self.isForbidden:
      .success(())
    case .news(let count) where self.news > count || self.isOpenForGood || self.isExpired:
      .success(())
    default:
      nil
    }
  }

  private var refusal: NetworkUnavailable? {
    switch self.verdict {
    case .free: nil
    case .forbidden(let refusal): refusal
    case .absent(let refusal): refusal
    }
  }

  /// Takes out those who wait no longer.
  mutating func ready() -> [(CheckedContinuation<Void, any Error>, Result<Void, any Error>)] {
    var ready: [(CheckedContinuation<Void, any Error>, Result<Void, any Error>)] = []
    for (number, waiter) in self.waiters {
      guard let outcome = self.outcome(of: waiter.event) else { continue }
      self.waiters[number] = nil
      ready.append((waiter.continuation, outcome))
    }
    return ready
  }

  /// The path that the work waits at, where that is not known yet.
  mutating func announcement() -> NetworkPath? {
    guard let path = self.path, self.waiters.values.contains(where: { $0.event == .free }) else {
      self.announced = nil
      return nil
    }
    defer { self.announced = path }
    return path == self.announced ? nil : path
  }
}
