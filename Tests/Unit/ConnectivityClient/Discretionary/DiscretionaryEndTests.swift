import Connectivity
import ConnectivityTestKit
import Synchronization
import Testing

@testable import ConnectivityClient
@testable import ConnectivityMonitor

/// How discretionary work ends, and what happens without connd.
@Suite("Discretionary work: ends", .timeLimit(.minutes(5)), .namesWaits)
struct DiscretionaryEndTests {
  // MARK: Ends

  @Test("C8 cancelling the task ends the wait immediately, before the work and during it")
  func cancelled() async throws {
    try await withSimulatedNetwork(.cellular) { network in
      let words = Happenings()
      let task = discretionaryTask(network, words)
      let before = Task { try await task.run { _ in words.say("runs") } }
      #expect(await words.next() == "waits, expensive")
      before.cancel()
      await #expect(throws: CancellationError.self) { try await before.value }
      try await network.waitForNoStreams()

      network.become(.wifi)
      for restarts in [false, true] {
        let within = Task {
          try await task.run { turn in
            if restarts {
              try await turn.restarting {
                words.say("runs")
                await cancellation()
                throw CancellationError()
              }
            } else {
              network.become(.cellular)
              try await turn.gate.wait(for: .forbidden)
              try await turn.wait()
            }
          }
        }
        #expect(await words.next() == (restarts ? "runs" : "waits, expensive"))
        within.cancel()
        await #expect(throws: CancellationError.self) { try await within.value }
        try await network.waitForNoStreams()
        network.become(.wifi)
      }
    }
  }

  @Test("C8 a task cancelled beforehand does nothing")
  func cancelledBefore() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      let words = Happenings()
      let task = discretionaryTask(network, words)
      let run = Task {
        withUnsafeCurrentTask { $0?.cancel() }
        try await task.run { _ in words.say("runs") }
      }
      await #expect(throws: CancellationError.self) { try await run.value }
      words.say("end")
      #expect(await words.next() == "end")
    }
  }

  @Test(
    "C8 a turn kept after its run is cancelled, and does not wait forever")
  func over() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      let words = Happenings()
      let task = discretionaryTask(network, words)
      let left = try await task.run { turn in
        network.become(.cellular)
        try await turn.gate.wait(for: .forbidden)
        let left = Task { try await turn.wait() }
        #expect(await words.next() == "waits, expensive")
        return (turn, left)
      }
      await #expect(throws: CancellationError.self) { try await left.1.value }
      await #expect(throws: CancellationError.self) { try await left.0.wait() }
    }
  }

  @Test(
    "C8 work held back for too long expires, and one expression falls back to less",
    arguments: [.timeout(.zero), .timeout(.milliseconds(20)), .deadline(.now)]
      as [CallSettings.TimeLimit])
  func expires(limit: CallSettings.TimeLimit) async throws {
    try await withSimulatedNetwork(.cellular) { network in
      let words = Happenings()
      let task = discretionaryTask(network, words) { $0.timeLimit = limit }
      let answer = try await withFallback(on: [.expensive]) {
        try await task.run { _ in "large" }
      } fallback: { reason in
        "small, for it is \(reason.rawValue)"
      }
      #expect(answer == "small, for it is expensive")
      network.become(.none)
      let expired = await #expect(throws: DiscretionaryTask.ExpiredError.self) {
        try await task.run { _ in words.say("runs") }
      }
      #expect(expired?.refusal == nil)
      #expect(expired?.path.status == .unsatisfied)
      try await network.waitForNoStreams()
    }
  }

  @Test("C8 running work does not expire unless it has to stop")
  func expiresLater() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      let words = Happenings()
      let task = discretionaryTask(network, words) { $0.timeLimit = .timeout(.zero) }
      let expired = await #expect(throws: DiscretionaryTask.ExpiredError.self) {
        try await task.run { turn in
          try await turn.wait()
          words.say("part 1")
          try await turn.restarting {
            words.say("part 2")
            network.become(.cellular)
            await cancellation()
            throw CancellationError()
          }
        }
      }
      #expect(expired?.refusal?.reason == .expensive)
      for word in ["part 1", "part 2"] { #expect(await words.next() == word) }
    }
  }

  // MARK: Without connd

  @Test("C8 C7 without connd, work runs, or waits for connd if configured to")
  func withoutConnd() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      await network.stop()
      let words = Happenings()
      try await discretionaryTask(network, words).run { _ in words.say("runs") }
      #expect(await words.next() == "runs")
      let task = discretionaryTask(network, words) { $0.access.whenUnknown = .refuse }
      async let run: Void = task.run { _ in words.say("runs") }
      #expect(await words.next() == "waits, unknown")
      try await network.start()
      #expect(await words.next() == "runs")
      try await run

      let expired = await #expect(throws: DiscretionaryTask.ExpiredError.self) {
        await network.stop()
        try await discretionaryTask(network, words) {
          ($0.access.whenUnknown, $0.timeLimit) = (.refuse, .timeout(.zero))
        }.run { _ in words.say("runs") }
      }
      #expect(expired?.refusal?.reason == .unknown)
    }
  }

  @Test("C8 K8 the kernel cannot be asked → work runs, or waits if configured to")
  func kernelUnknown() async throws {
    try await withSimulatedNetwork(.unknown) { network in
      let words = Happenings()
      try await discretionaryTask(network, words).run { _ in words.say("runs") }
      #expect(await words.next() == "runs")
      let task = discretionaryTask(network, words) { $0.access.whenUnknown = .refuse }
      async let run: Void = task.run { _ in words.say("runs") }
      #expect(await words.next() == "waits, unknown")
      network.become(.wifi)
      #expect(await words.next() == "runs")
      try await run
    }
  }

  @Test("C8 C7 a restart of connd is not noticed, and its first answer applies")
  func restart() async throws {
    try await withSimulatedNetwork(.wifi, clock: StoppedClock()) { network in
      let words = Happenings()
      let task = discretionaryTask(network, words) {
        $0.access.whenUnknown = .refuse
      }
      async let run: Void = task.run { turn in
        await network.stop()
        // connd is not known to be away, and the last known path applies.
        try await turn.wait()
        words.say("part 1")
        network.become(.cellular)
        try await network.start()
        try await turn.gate.wait(for: .forbidden)
        try await turn.wait()
        words.say("part 2")
      }
      #expect(await words.next() == "part 1")
      #expect(await words.next() == "waits, expensive")
      network.become(.wifi)
      #expect(await words.next() == "part 2")
      try await run
    }
  }

  @Test(
    "C8 C7 connd stays away → running work continues, and waits for connd at its safe points")
  func away() async throws {
    try await withSimulatedNetwork(.wifi, clock: StoppedClock()) { network in
      let words = Happenings()
      let task = discretionaryTask(network, words) {
        $0.monitor = PathMonitor(.system, socket: network.socket, maxWait: .milliseconds(20))
        $0.access.whenUnknown = .refuse
      }
      async let run: Void = task.run { turn in
        let isCancelled = try await turn.restarting {
          words.say("part 1")
          let news = turn.gate.news
          await network.stop()
          try await turn.gate.wait(for: .news(since: news))
          return Task.isCancelled
        }
        #expect(!isCancelled)
        try await turn.wait()
        words.say("part 2")
      }
      // The patience is so short that connd's first report may come too late.
      while let word = await words.next(), word != "part 1" {}
      #expect(await words.next() == "waits, unknown")
      try await network.start()
      #expect(await words.next() == "part 2")
      try await run
    }
  }
}
