import Connectivity
import ConnectivityTestKit
import Synchronization
import Testing

@testable import ConnectivityClient
@testable import ConnectivityMonitor

/// Parts of work without safe points.
@Suite("Discretionary work: restarts", .timeLimit(.minutes(5)), .namesWaits)
struct DiscretionaryRestartTests {
  @Test(
    "C8 a part without safe points is cancelled when the path is forbidden, and starts again later")
  func restarts() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      let words = Happenings()
      let task = discretionaryTask(network, words)
      let attempts = Atomic(0)
      async let answer = task.run { turn in
        try await turn.restarting {
          let attempt = attempts.add(1, ordering: .relaxed).newValue
          words.say("attempt \(attempt)")
          guard attempt < 3 else { return attempt }
          await cancellation()
          words.say("cancelled")
          throw CancellationError()
        }
      }
      for (attempt, conditions, word) in [
        (1, .cellular, "expensive"), (2, .wifi.constrained(), "constrained"),
      ] as [(Int, NetworkConditions, String)] {
        #expect(await words.next() == "attempt \(attempt)")
        network.become(conditions)
        #expect(await words.next() == "cancelled")
        #expect(await words.next() == "waits, \(word)")
        network.become(.wifi)
      }
      #expect(await words.next() == "attempt 3")
      #expect(try await answer == 3)
      try await network.waitForNoStreams()
    }
  }

  @Test("C8 a part that finished despite its cancellation does not start again")
  func endsNevertheless() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      let words = Happenings()
      let answer = try await discretionaryTask(network, words).run { turn in
        try await turn.restarting {
          words.say("runs")
          network.become(.cellular)
          await cancellation()
          return "done"
        }
      }
      #expect(answer == "done")
      #expect(await words.next() == "runs")
      words.say("end")
      #expect(await words.next() == "end")
    }
  }

  @Test("C8 having no network cancels nothing")
  func offline() async throws {
    try await withSimulatedNetwork(.wifi, clock: StoppedClock()) { network in
      let words = Happenings()
      let answer = try await discretionaryTask(network, words).run { turn in
        try await turn.restarting {
          words.say("runs")
          let news = turn.gate.news
          network.become(.none)
          try await turn.gate.wait(for: .news(since: news))
          return Task.isCancelled
        }
      }
      #expect(!answer)
      #expect(await words.next() == "runs")
    }
  }

  private struct Failure: Error {}

  @Test("C8 C6 a failure on an allowed path is a failure")
  func fails() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      let words = Happenings()
      await #expect(throws: Failure.self) {
        try await discretionaryTask(network, words).run { turn in
          try await turn.restarting {
            words.say("runs")
            throw Failure()
          }
        }
      }
      #expect(await words.next() == "runs")
      words.say("end")
      #expect(await words.next() == "end")
    }
  }

  @Test("C8 a failure on a path that connd has left, and reports later → the part starts again")
  func failsEarlier() async throws {
    try await PathConnd.withSocket { socket in
      try await PathConnd.serving(socket) { connd in
        let words = Happenings()
        let attempts = Atomic(0)
        let task = DiscretionaryTask(
          config: .defaults {
            $0.monitor = PathMonitor(.system, socket: socket, maxWait: longPatience)
            $0.onWait = { words.say("waits, \(word(for: $0))") }
          })
        async let answer = task.run { turn in
          try await turn.restarting {
            let attempt = attempts.add(1, ordering: .relaxed).newValue
            words.say("attempt \(attempt)")
            guard attempt > 1 else { throw Failure() }
            return attempt
          }
        }
        let wifi = PathSample.status(PathSample.wifi)
        let cellular = PathSample.status(PathSample.cellular)
        let follower = try #require(await connd.watches.next())
        follower.send(.snapshot(17, wifi))
        #expect(await words.next() == "attempt 1")
        let question = try #require(await connd.watches.next())
        question.send(.snapshot(18, cellular))
        await question.hangUp()
        follower.send(.transition(18, from: .wifi, to: cellular))
        #expect(await words.next() == "waits, expensive")
        follower.send(.transition(19, from: .cellular, to: wifi))
        #expect(await words.next() == "attempt 2")
        #expect(try await answer == 2)
        await follower.hangUp()
      }
    }
  }
}
