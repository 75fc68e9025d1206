/// A clock that stands still: with it, a simulated network's time passes only where the test says so, by
/// ``SimulatedNetwork/advance(by:)`` and by the pauses of scripts, which do not wait.
///
/// A test under a load that it cannot foresee has no grace that ends too soon:
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

  /// Returns at once for what has passed, else when the task is cancelled.
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
