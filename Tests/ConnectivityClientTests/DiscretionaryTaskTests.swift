import Connectivity
import ConnectivityTestKit
import Synchronization
import Testing

@testable import ConnectivityClient

/// Work that waits for a network that may be used freely.
///
/// What happened is a sequence of words, and a word that should not be there is where another one should.
@Suite("Work that waits", .timeLimit(.minutes(5)))
struct DiscretionaryTaskTests {
  /// Longer than any test: on a machine under load, connd may be silent for a while.
  private static let patience: Duration = .seconds(3_600)

  private static func task(
    _ network: SimulatedNetwork, _ words: Happenings,
    _ change: (inout DiscretionaryTask.Configuration) -> Void = { _ in }
  ) -> DiscretionaryTask {
    DiscretionaryTask {
      $0.monitor = PathMonitor(.system, socket: network.socket, patience: Self.patience)
      $0.onWait = { words.say("waits, \(DiscretionaryTaskTests.word(for: $0))") }
      change(&$0)
    }
  }

  private static func word(for path: NetworkPath) -> String {
    if path.isConstrained { return "constrained" }
    return path.isExpensive ? "expensive" : path.status.rawValue
  }

  // MARK: Beginning

  @Test(
    "C8 work waits for a path that may be used, and begins when there is one",
    arguments: [
      (.cellular, "expensive"), (.wifi.expensive(), "expensive"),
      (.wifi.constrained(), "constrained"), (.none, "unsatisfied"),
      (.wifi.failing(.noCarrier), "requiresConnection"),
    ] as [(NetworkConditions, String)])
  func waits(conditions: NetworkConditions, word: String) async throws {
    try await withSimulatedNetwork(conditions, clock: StoppedClock()) { network in
      let words = Happenings()
      let task = Self.task(network, words)
      async let answer = task.run { _ in
        words.say("runs")
        return "done"
      }
      #expect(await words.next() == "waits, \(word)")
      network.become(.wired)
      #expect(await words.next() == "runs")
      #expect(try await answer == "done")
      try await network.waitForNoStreams()
    }
  }

  @Test(
    "C8 work does not wait on a path that costs nothing",
    arguments: [.wifi, .wired] as [NetworkConditions])
  func free(conditions: NetworkConditions) async throws {
    try await withSimulatedNetwork(conditions) { network in
      let words = Happenings()
      try await Self.task(network, words).run { _ in words.say("runs") }
      #expect(await words.next() == "runs")
      try await network.waitForNoStreams()
    }
  }

  @Test("C8 what there is while work waits is told when it changes")
  func told() async throws {
    try await withSimulatedNetwork(.cellular, clock: StoppedClock()) { network in
      let words = Happenings()
      let task = Self.task(network, words)
      async let run: Void = task.run { _ in words.say("runs") }
      for (conditions, word) in [
        (.cellular, "expensive"), (.none, "unsatisfied"), (.wifi.constrained(), "constrained"),
      ] as [(NetworkConditions, String)] {
        network.become(conditions)
        #expect(await words.next() == "waits, \(word)")
      }
      network.become(.wifi)
      #expect(await words.next() == "runs")
      try await run
    }
  }

  @Test("C8 work to one destination waits for the path to that one")
  func destination() async throws {
    let server = try #require(IPAddress("198.18.0.80"))
    try await withSimulatedNetwork(.cellular) { network in
      let words = Happenings()
      let task = Self.task(network, words) {
        $0.monitor = PathMonitor(
          .destination(server, mark: 0), socket: network.socket, patience: Self.patience)
      }
      try network.route("198.18.0.0/24", by: .wired)
      try await task.run { _ in words.say("runs") }
      #expect(await words.next() == "runs")
      try network.route("198.18.0.0/24", by: .wired.expensive())
      async let run: Void = task.run { _ in words.say("runs") }
      #expect(await words.next() == "waits, expensive")
      network.become(.wifi)
      try network.removeRoute("198.18.0.0/24")
      #expect(await words.next() == "runs")
      try await run
    }
  }

  @Test(
    "C8 a path of two families may be used where both of those may that carry",
    arguments: [
      (PathSample.wifi, PathSample.wifi6, .inexpensive, nil),
      (PathSample.cellular, PathSample.none, .inexpensive, .expensive),
      (PathSample.cellular, PathSample.wifi6, .inexpensive, .expensive),
      (PathSample.cellular, PathSample.wifi6, .unrestricted, nil),
      (PathSample.wifi, PathSample.wifi6, NetworkAccess(prohibitedMedia: [.wifi]), .wifi),
      (PathSample.wifi, PathSample.none, .requiring([.wifi]), nil),
    ] as [(Path, Path, NetworkAccess, NetworkUnavailable.Reason?)])
  func families(
    ipv4: Path, ipv6: Path, access: NetworkAccess, reason: NetworkUnavailable.Reason?
  ) {
    let path = NetworkPath(PathSample.status(ipv4, ipv6))
    for isMonitors in [false, true] {
      var configuration = DiscretionaryTask.Configuration()
      configuration.access = isMonitors ? .unrestricted : access
      if isMonitors { configuration.monitor = PathMonitor(access: access) }
      switch configuration.verdict(on: path) {
      case .free: #expect(reason == nil)
      case .forbidden(let refusal): #expect(refusal.reason == reason)
      case .absent: Issue.record("there is a path")
      }
    }
  }

  // MARK: Yielding

  @Test("C8 work yields at its safe points while the path may not be used, and goes on from there")
  func yields() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      let words = Happenings()
      let task = Self.task(network, words)
      async let run: Void = task.run { turn in
        for part in 1...3 {
          try await turn.wait()
          words.say("part \(part)")
          // What is under way goes on, until its next safe point.
          if part < 3 { try await turn.gate.wait(for: .forbidden) }
        }
      }
      for (part, conditions, word) in [
        (1, .cellular, "expensive"), (2, .wifi.constrained(), "constrained"),
      ] as [(Int, NetworkConditions, String)] {
        #expect(await words.next() == "part \(part)")
        network.become(conditions)
        #expect(await words.next() == "waits, \(word)")
        network.become(.wifi)
      }
      #expect(await words.next() == "part 3")
      try await run
      try await network.waitForNoStreams()
    }
  }

  @Test("C8 all tasks of one work wait, and go on together")
  func together() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      let words = Happenings()
      let task = Self.task(network, words)
      async let run: Void = task.run { turn in
        network.become(.cellular)
        try await turn.gate.wait(for: .forbidden)
        try await withThrowingTaskGroup(of: Void.self) { group in
          for _ in 0..<3 { group.addTask { try await turn.wait() } }
          #expect(await words.next() == "waits, expensive")
          network.become(.wifi)
          try await group.waitForAll()
        }
      }
      try await run
    }
  }

  // MARK: Beginning anew

  @Test("C8 a part without safe points is cancelled when the path may not be used, and begun anew")
  func restarts() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      let words = Happenings()
      let task = Self.task(network, words)
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

  @Test("C8 a part that has ended although it was cancelled is not begun anew")
  func endsNevertheless() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      let words = Happenings()
      let answer = try await Self.task(network, words).run { turn in
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

  @Test("C8 no network at all cancels nothing")
  func offline() async throws {
    try await withSimulatedNetwork(.wifi, clock: StoppedClock()) { network in
      let words = Happenings()
      let answer = try await Self.task(network, words).run { turn in
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

  @Test("C8 C6 what fails on a path that may be used, fails")
  func fails() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      let words = Happenings()
      await #expect(throws: Failure.self) {
        try await Self.task(network, words).run { turn in
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

  @Test("C8 what fails on a path that connd has left already, and tells later, is begun anew")
  func failsEarlier() async throws {
    try await PathConnd.withSocket { socket in
      try await PathConnd.serving(socket) { connd in
        let words = Happenings()
        let attempts = Atomic(0)
        let task = DiscretionaryTask {
          $0.monitor = PathMonitor(.system, socket: socket, patience: Self.patience)
          $0.onWait = { words.say("waits, \(DiscretionaryTaskTests.word(for: $0))") }
        }
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

  // MARK: Users

  @Test("C8 what the user asks for is never held back, and follows nothing")
  func userInitiated() async throws {
    try await withSimulatedNetwork(.cellular) { network in
      let words = Happenings()
      let task = Self.task(network, words) { $0.isUserInitiated = true }
      let answer = try await task.run { turn in
        #expect(network.openStreams == 0)
        try await turn.wait()
        return try await turn.restarting { "done" }
      }
      #expect(answer == "done")
      words.say("end")
      #expect(await words.next() == "end")
    }
  }

  @Test("C8 what waits goes on when the user asks for it, in all its runs, and yields no more")
  func promoted() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      let words = Happenings()
      let task = Self.task(network, words)
      async let first: Void = task.run { turn in
        network.become(.cellular)
        try await turn.gate.wait(for: .forbidden)
        words.say("forbidden")
        try await turn.wait()
      }
      #expect(await words.next() == "forbidden")
      #expect(await words.next() == "waits, expensive")
      async let second = task.run { turn in
        try await turn.restarting {
          let news = turn.gate.news
          network.become(.cellular.constrained())
          try await turn.gate.wait(for: .news(since: news))
          return Task.isCancelled
        }
      }
      #expect(await words.next() == "waits, expensive")
      task.promote()
      try await first
      #expect(try await second == false)
      #expect(try await task.run { _ in "third" } == "third")
    }
  }

  // MARK: Ends

  @Test("C8 cancelling the task ends the wait at once, before the work and within it")
  func cancelled() async throws {
    try await withSimulatedNetwork(.cellular) { network in
      let words = Happenings()
      let task = Self.task(network, words)
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

  @Test("C8 a task that was cancelled before does nothing")
  func cancelledBefore() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      let words = Happenings()
      let task = Self.task(network, words)
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
    "C8 who has kept the network of a run that is over is cancelled, and does not wait for ever")
  func over() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      let words = Happenings()
      let task = Self.task(network, words)
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
    "C8 work that was held back for too long ends, and one expression makes do with less",
    arguments: [.timeout(.zero), .timeout(.milliseconds(20)), .deadline(.now)] as [TimeLimit])
  func expires(limit: TimeLimit) async throws {
    try await withSimulatedNetwork(.cellular) { network in
      let words = Happenings()
      let task = Self.task(network, words) { $0.timeLimit = limit }
      let answer = try await withFallback(on: [.expensive]) {
        try await task.run { _ in "large" }
      } fallback: { reason in
        "small, for it is \(reason.rawValue)"
      }
      #expect(answer == "small, for it is expensive")
      network.become(.none)
      let expired = await #expect(throws: DiscretionaryTask.Expired.self) {
        try await task.run { _ in words.say("runs") }
      }
      #expect(expired?.refusal == nil)
      #expect(expired?.path.status == .unsatisfied)
      try await network.waitForNoStreams()
    }
  }

  @Test("C8 work that is under way is not ended by time, unless it may not go on")
  func expiresLater() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      let words = Happenings()
      let task = Self.task(network, words) { $0.timeLimit = .timeout(.zero) }
      let expired = await #expect(throws: DiscretionaryTask.Expired.self) {
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

  @Test("C8 C7 without connd, work runs, or waits for connd where it is told to")
  func withoutConnd() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      await network.stop()
      let words = Happenings()
      try await Self.task(network, words).run { _ in words.say("runs") }
      #expect(await words.next() == "runs")
      let task = Self.task(network, words) { $0.whenUnknown = .wait }
      async let run: Void = task.run { _ in words.say("runs") }
      #expect(await words.next() == "waits, unknown")
      try await network.start()
      #expect(await words.next() == "runs")
      try await run

      let expired = await #expect(throws: DiscretionaryTask.Expired.self) {
        await network.stop()
        try await Self.task(network, words) {
          ($0.whenUnknown, $0.timeLimit) = (.wait, .timeout(.zero))
        }.run { _ in words.say("runs") }
      }
      #expect(expired?.refusal?.reason == .unknown)
    }
  }

  @Test("C8 K8 where the kernel cannot be asked, work runs, or waits where it is told to")
  func kernelUnknown() async throws {
    try await withSimulatedNetwork(.unknown) { network in
      let words = Happenings()
      try await Self.task(network, words).run { _ in words.say("runs") }
      #expect(await words.next() == "runs")
      let task = Self.task(network, words) { $0.whenUnknown = .wait }
      async let run: Void = task.run { _ in words.say("runs") }
      #expect(await words.next() == "waits, unknown")
      network.become(.wifi)
      #expect(await words.next() == "runs")
      try await run
    }
  }

  @Test("C8 C7 a restart of connd is not seen, and what it finds then holds")
  func restart() async throws {
    try await withSimulatedNetwork(.wifi, clock: StoppedClock()) { network in
      let words = Happenings()
      let task = Self.task(network, words) {
        $0.whenUnknown = .wait
      }
      async let run: Void = task.run { turn in
        await network.stop()
        // It is not known to be away, and what is known holds.
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
    "C8 C7 where connd stays away, what is under way goes on, and waits for it at its safe points")
  func away() async throws {
    try await withSimulatedNetwork(.wifi, clock: StoppedClock()) { network in
      let words = Happenings()
      let task = Self.task(network, words) {
        $0.monitor = PathMonitor(.system, socket: network.socket, patience: .milliseconds(20))
        $0.whenUnknown = .wait
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
      // So short is the patience that connd's first word may come too late for it.
      while let word = await words.next(), word != "part 1" {}
      #expect(await words.next() == "waits, unknown")
      try await network.start()
      #expect(await words.next() == "part 2")
      try await run
    }
  }

  @Test("C8 it needs nothing of its results or its surroundings to be Sendable")
  @MainActor
  func isolation() async throws {
    final class Local { var count = 0 }
    let local = Local()
    try await withSimulatedNetwork(.wifi) { network in
      let result = try await Self.task(network, Happenings()).run { turn -> Local in
        local.count += 1
        try await turn.wait()
        MainActor.assertIsolated()
        return local
      }
      #expect(result.count == 1)
    }
  }
}

/// What happened, in order, for one task to read.
private final class Happenings: Sendable {
  private let (words, continuation) = AsyncStream.makeStream(of: String.self)

  func say(_ word: String) { self.continuation.yield(word) }

  func next() async -> String? { await self.words.first { _ in true } }
}
