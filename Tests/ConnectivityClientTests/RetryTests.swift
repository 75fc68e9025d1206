import Connectivity
import GRPCCore
import Testing

@testable import ConnectivityClient

@Suite("Retries that the caller asks for")
struct RetryTests {
  private static let gone = RPCError(code: .unavailable, message: "gone")
  private static let invalidated = RPCError(
    code: .unavailable, message: "",
    cause: FlowInvalidation(
      reason: .interfaceLost, severity: .destroy, cause: Cause(.link, "carrierLost"),
      path: nil))
  private static let refused = RPCError(
    NetworkUnavailable(
      reason: .expensive, path: Path(status: .satisfied, medium: .cellular, isExpensive: true)))

  // MARK: Whether

  @Test("A call that fails is made again, as often as was asked for", arguments: 0...3)
  func bounded(retries: Int) async {
    var attempts = 0
    await expectCode(.unavailable) {
      try await withRetries(atMost: retries, backoff: .constant(.zero)) {
        attempts += 1
        throw Self.gone
      }
    }
    #expect(attempts == 1 + retries)
  }

  @Test("The first attempt that succeeds is the last")
  func succeeds() async throws {
    var attempts = 0
    let result = try await withRetries(atMost: 5, backoff: .constant(.zero)) {
      attempts += 1
      if attempts < 3 { throw Self.gone }
      return attempts
    }
    #expect(result == 3)
    #expect(attempts == 3)
  }

  @Test(
    "Only the codes that were asked for are retried, by default UNAVAILABLE",
    arguments: [
      (gone, [.unavailable], true),
      (RPCError(code: .deadlineExceeded, message: ""), [.unavailable], false),
      (RPCError(code: .internalError, message: ""), [.unavailable], false),
      (RPCError(code: .aborted, message: ""), [.unavailable, .aborted], true),
      (gone, [.aborted], false), (gone, [], false), (CancellationError(), [.unavailable], false),
    ] as [(any Error, Set<RPCError.Code>, Bool)])
  func codes(error: any Error, codes: Set<RPCError.Code>, isRetried: Bool) {
    var plan = RetryPlan(retries: 1, codes: codes)
    #expect((plan.pause(after: error, now: .now, random: 0) != nil) == isRetried)
  }

  @Test(
    "What the network may not be used for is not retried unless asked", arguments: [false, true])
  func refusals(including: Bool) {
    for error in [
      Self.refused, RPCError(code: .unavailable, message: "", cause: Self.refused),
    ] {
      var plan = RetryPlan(retries: 1, includingRefusals: including)
      #expect((plan.pause(after: error, now: .now, random: 0) != nil) == including)
    }
  }

  // MARK: When

  @Test("The pauses are those of gRPC's connection backoff")
  func exponential() throws {
    var plan = RetryPlan(retries: 100)
    let pauses = (0..<12).map { _ in plan.pause(after: Self.gone, now: .now, random: 0) }
    #expect(pauses[0] == .seconds(1))
    #expect(pauses[1] == .seconds(1) * 1.6)
    #expect(pauses[11] == .seconds(120))
    #expect(plan.pause(after: Self.gone, now: .now, random: -1) == .seconds(96))
    #expect(plan.pause(after: Self.gone, now: .now, random: 1) == .seconds(144))
  }

  @Test("A pause that was asked for is kept to")
  func constant() {
    var plan = RetryPlan(retries: 2, backoff: .constant(.milliseconds(30)))
    #expect(plan.pause(after: Self.gone, now: .now, random: 1) == .milliseconds(30))
    #expect(plan.pause(after: Self.gone, now: .now, random: 1) == .milliseconds(30))
    #expect(plan.pause(after: Self.gone, now: .now, random: 1) == nil)
  }

  @Test(
    "C3 the first retry after an invalidation does not wait, the next one does",
    arguments: [
      (.exponential, .seconds(1)), (.constant(.seconds(7)), .seconds(7)),
    ] as [(RetryBackoff, Duration)])
  func invalidation(backoff: RetryBackoff, second: Duration) {
    var plan = RetryPlan(retries: 2, backoff: backoff)
    #expect(plan.pause(after: Self.invalidated, now: .now, random: 0) == .zero)
    #expect(plan.pause(after: Self.invalidated, now: .now, random: 0) == second)
  }

  @Test("There is no retry after the deadline, and none that would have to wait for it")
  func deadline() {
    let now = ContinuousClock.now
    func pause(_ backoff: RetryBackoff, _ limit: TimeLimit?) -> Duration? {
      var plan = RetryPlan(retries: 1, backoff: backoff, timeLimit: limit)
      return plan.pause(after: Self.gone, now: now, random: 0)
    }
    #expect(pause(.constant(.zero), .deadline(now - .seconds(1))) == nil)
    #expect(pause(.constant(.zero), .deadline(now)) == nil)
    #expect(pause(.constant(.seconds(2)), .deadline(now + .seconds(2))) == nil)
    #expect(pause(.constant(.seconds(2)), .deadline(now + .seconds(3))) == .seconds(2))
    // A timeout is each call's own.
    #expect(pause(.constant(.seconds(2)), .timeout(.seconds(1))) == .seconds(2))
    #expect(pause(.constant(.seconds(2)), .unlimited) == .seconds(2))
  }

  @Test("The deadline is that of the present call settings")
  func currentDeadline() async {
    var attempts = 0
    await expectCode(.unavailable) {
      try await withCallSettings {
        $0.timeLimit = .deadline(.now)
      } operation: {
        try await withRetries(atMost: 3, backoff: .constant(.zero)) {
          attempts += 1
          throw Self.gone
        }
      }
    }
    #expect(attempts == 1)
  }

  // MARK: Cancellation

  @Test("A cancelled task retries nothing")
  func cancelled() async {
    let task = Task {
      withUnsafeCurrentTask { $0?.cancel() }
      var attempts = 0
      await expectCode(.unavailable) {
        try await withRetries(atMost: 3, backoff: .constant(.zero)) {
          attempts += 1
          throw Self.gone
        }
      }
      return attempts
    }
    #expect(await task.value == 1)
  }

  @Test("Cancelling ends a pause", .timeLimit(.minutes(1)))
  func cancelledInPause() async {
    let (failures, failed) = AsyncStream.makeStream(of: Void.self)
    let task = Task {
      try await withRetries(atMost: 3, backoff: .constant(.seconds(3600))) {
        failed.yield()
        throw Self.gone
      }
    }
    var iterator = failures.makeAsyncIterator()
    await iterator.next()
    task.cancel()
    await #expect(throws: (any Error).self) { try await task.value }
  }
}
