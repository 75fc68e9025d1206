import Connectivity
import ConnectivityTestKit
import Synchronization
import Testing

@Suite("Test kit: scripts", .timeLimit(.minutes(5)), .namesWaits)
struct TestKitScriptTests {
  @Test(
    "each step is parsed",
    arguments: [
      ("", []),
      ("wifi", [.become([.wifi])]),
      (
        "wifi, 2 s, none, cellular",
        [.become([.wifi]), .pause(.seconds(2)), .become([.none]), .become([.cellular])]
      ),
      (
        "500ms,1.5 s , 1 min",
        [.pause(.milliseconds(500)), .pause(.milliseconds(1500)), .pause(.seconds(60))]
      ),
      ("wired + wifi", [.become([.wired, .wifi])]),
      (
        "wifi \"a cafe, upstairs\" noCarrier",
        [.become([.wifi.named("a cafe, upstairs").failing(.noCarrier)])]
      ),
      (
        "expensive wifi, constrained cellular",
        [.become([.wifi.expensive()]), .become([.cellular.constrained()])]
      ),
      ("unknown, bounce, stop, start", [.become([.unknown]), .bounce, .stop, .start]),
    ] as [(String, [NetworkScript.Step])])
  func steps(text: String, steps: [NetworkScript.Step]) throws {
    #expect(try NetworkScript(text).steps == steps)
  }

  @Test(
    "an error names the word that is not understood",
    arguments: [
      ("wifi, 2 s, wlan", "wlan"), ("wifi none", "none"), ("wifi cellular", "cellular"),
      ("wifi 2 s", "2"), ("2, wifi", "2"), ("2 fortnights", "fortnights"), ("1.2.3 s", "1.2.3"),
      ("wifi,", ""), (", wifi", ","), ("wifi,, none", ","), ("expensive", ""),
      ("expensive none", "none"), ("wifi \"cafe", "\"cafe"), ("wifi + 2 s", "2"),
      ("stop wifi", "wifi"), ("9999999 min", "9999999"),
    ])
  func errors(text: String, word: String) {
    let error = #expect(throws: NetworkScriptError.self) { try NetworkScript(text) }
    #expect(error?.word == word)
    #expect(error.map { "\($0)".contains(word.isEmpty ? "too soon" : "'\(word)'") } == true)
  }

  @Test("a script with an error is not played at all")
  func nothing() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      await #expect(throws: NetworkScriptError.self) { try await network.play("none, wlan") }
      #expect(network.snapshot.status.category == .wifi)
    }
  }

  @Test("pauses use the given clock, and are divided by the speed")
  func pauses() async throws {
    let clock = HastyClock()
    try await withSimulatedNetwork(.wifi, clock: clock) { network in
      try await network.play("none, 2 s, cellular")
      #expect(clock.pauses == [.seconds(2)])
      try await network.play("none, 3 s, wifi", speed: 10)
      #expect(clock.pauses == [.seconds(2), .milliseconds(300)])
      try await network.play("none, 1 min, cellular", speed: .infinity)
      #expect(clock.pauses.count == 2)
      #expect(network.snapshot.status.category == .cellular)
    }
  }

  @Test("I10 grace periods end in the script's time, at any speed")
  func graces() async throws {
    try await withSimulatedNetwork(.wifi, clock: StoppedClock()) { network in
      try await network.play("wifi noCarrier, 999 ms", speed: .infinity)
      #expect(network.severities == [.advise, .advise])
      try await network.play("1 ms", speed: 2)
      #expect(network.severities == [.advise, .advise, .destroy, .destroy])
    }
  }

  @Test("a cancelled script stops playing")
  func cancellation() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      let script = Task { try await network.play("none, 1 min, cellular") }
      script.cancel()
      await #expect(throws: CancellationError.self) { try await script.value }
      #expect(network.snapshot.status.category != .cellular)
    }
  }
}

extension SimulatedNetwork {
  fileprivate var severities: [Invalidation.Severity] {
    self.history.compactMap { change in
      if case .invalidation(let invalidation) = change { invalidation.severity } else { nil }
    }
  }
}

/// A clock on which every sleep ends immediately.
private final class HastyClock: Clock {
  typealias Instant = ContinuousClock.Instant

  private let state = Mutex((now: ContinuousClock.now, pauses: [Duration]()))

  var now: Instant { self.state.withLock { $0.now } }
  var minimumResolution: Duration { .nanoseconds(1) }
  var pauses: [Duration] { self.state.withLock { $0.pauses } }

  func sleep(until deadline: Instant, tolerance: Duration?) async throws {
    self.state.withLock { state in
      state.pauses.append(state.now.duration(to: deadline))
      state.now = max(state.now, deadline)
    }
  }
}
