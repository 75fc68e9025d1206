internal import ConnectivitySession
public import GRPCCore
internal import GRPCNIOTransportHTTP2Posix

/// The pauses between attempts.
public enum RetryBackoff: Hashable, Sendable {
  /// Those of gRPC's connection-backoff document: 1 s, growing by 1.6 to at most 120 s, spread by 20 % each way.
  case exponential
  /// Always this one.
  case constant(Duration)
}

/// Runs `operation`, and again where it failed with one of `codes`.
///
/// ```swift
/// let weather = try await withRetries(atMost: 1) {
///   try await stations.getWeather(request)
/// }
/// ```
///
/// A call that failed may have reached the server and been carried out: nobody but the caller knows whether doing it
/// twice is the same as doing it once. Retry what only reads, or what bears a key by which the server knows a
/// repetition. Never retry a payment. Nothing is retried where this is not called (C6).
///
/// The first retry follows at once where the network was what ended the call (`RPCError.invalidation`): the next
/// connection has a backoff of its own. Others wait as `backoff` says. There is no retry
/// - after the deadline of `CallSettings.current`, nor one that would have to wait until then. A timeout holds for each
///   call by itself;
/// - of a call that may not use the network (``NetworkUnavailable``), unless `includingRefusals` is set;
/// - where the task is cancelled.
///
/// - Parameters:
///   - retries: How often `operation` may be run again; it runs `1 + retries` times at most.
///   - codes: The codes of the `RPCError`s after which it is. Any other error is thrown as it comes.
///   - includingRefusals: The network may be another one by then.
///   - backoff: How long to wait.
///   - operation: The call. Streams have to be made anew in it, and responses that came before it failed come again.
/// - Returns: What `operation` returns.
/// - Throws: The last error of `operation`; `CancellationError` where the task is cancelled in a pause.
public func withRetries<Result>(
  atMost retries: Int = 1, on codes: Set<RPCError.Code> = [.unavailable],
  includingRefusals: Bool = false, backoff: RetryBackoff = .exponential,
  isolation: isolated (any Actor)? = #isolation,
  operation: () async throws -> Result
) async throws -> Result {
  var plan = RetryPlan(
    retries: retries, codes: codes, includingRefusals: includingRefusals, backoff: backoff,
    timeLimit: CallSettings.current.timeLimit)
  while true {
    do {
      return try await operation()
    } catch {
      guard
        !Task.isCancelled,
        let pause = plan.pause(after: error, now: .now, random: .random(in: -1...1))
      else { throw error }
      if pause > .zero { try await Task.sleep(for: pause) }
    }
  }
}

/// Whether there is another attempt, and when.
struct RetryPlan: Sendable {
  private let codes: Set<RPCError.Code>
  private let includingRefusals: Bool
  private let deadline: ContinuousClock.Instant?
  /// `nil`: the pause is always the same.
  private var exponential: ConnectionBackoff?
  private let constant: Duration
  private var isFirst = true
  private var left: Int

  init(
    retries: Int, codes: Set<RPCError.Code> = [.unavailable], includingRefusals: Bool = false,
    backoff: RetryBackoff = .exponential, timeLimit: TimeLimit? = nil
  ) {
    self.left = retries
    self.codes = codes
    self.includingRefusals = includingRefusals
    switch backoff {
    case .exponential:
      self.exponential = ConnectionBackoff(.defaults)
      self.constant = .zero
    case .constant(let pause):
      self.exponential = nil
      self.constant = max(pause, .zero)
    }
    self.deadline = if case .deadline(let instant) = timeLimit { instant } else { nil }
  }

  /// How long to wait before the next attempt; `nil` where there is none.
  ///
  /// - Parameter random: A number between -1 and 1, for the jitter.
  mutating func pause(
    after error: any Error, now: ContinuousClock.Instant, random: Double
  ) -> Duration? {
    guard
      self.left > 0, let error = error as? RPCError, self.codes.contains(error.code),
      self.includingRefusals || NetworkUnavailable.Reason(of: error) == nil
    else { return nil }
    self.left -= 1
    let pause: Duration
    if self.isFirst, error.invalidation != nil {
      pause = .zero
    } else {
      pause = self.exponential?.next(random: random) ?? self.constant
    }
    self.isFirst = false
    if let deadline = self.deadline, now + pause >= deadline { return nil }
    return pause
  }
}
