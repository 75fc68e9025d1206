/// A stopped clock. Simulated time then passes only by ``SimulatedNetwork/advance(by:)`` and by the
/// pauses of scripts, which do not wait.
///
/// With this clock, no grace period ends too early in a test, however loaded the machine is:
///
/// ```swift
/// try await withSimulatedNetwork(.wifi, clock: StoppedClock()) { network in
///   network.become(.wifi.failing(.noCarrier))   // advised
///   network.advance(by: .seconds(1))            // destroyed, and not before
/// }
/// ```
public struct StoppedClock: Clock {
  public typealias Instant = ContinuousClock.Instant

  public let now = ContinuousClock.now
  public var minimumResolution: Duration { .nanoseconds(1) }

  public init() {}

  /// Returns immediately if the deadline has passed, otherwise when the task is cancelled.
  ///
  /// - Throws: `CancellationError`.
  public func sleep(until deadline: Instant, tolerance: Duration?) async throws {
    if deadline <= self.now { return }
    let (never, continuation) = AsyncStream.makeStream(of: Void.self)
    for await _ in never {}
    withExtendedLifetime(continuation) {}
    throw CancellationError()
  }
}
