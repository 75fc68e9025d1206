import Connectivity
import ConnectivityTestKit
import Synchronization
import Testing

@testable import ConnectivityClient
@testable import ConnectivityMonitor

/// Work that waits for a network that may be used freely.
///
/// Events are recorded as a sequence of words, so that an unexpected word shows in place of the
/// expected one.
@Suite("Discretionary work", .timeLimit(.minutes(5)), .namesWaits)
struct DiscretionaryTaskTests {
  // MARK: Beginning

  @Test(
    "C8 work waits for an allowed path, and begins when there is one",
    arguments: [
      (.cellular, "expensive"), (.wifi.expensive(), "expensive"),
      (.wifi.constrained(), "constrained"), (.none, "unsatisfied"),
      (.wifi.failing(.noCarrier), "requiresConnection"),
    ] as [(NetworkConditions, String)])
  func waits(conditions: NetworkConditions, word: String) async throws {
    try await withSimulatedNetwork(conditions, clock: StoppedClock()) { network in
      let words = Happenings()
      let task = discretionaryTask(network, words)
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
    "C8 work does not wait on an inexpensive path",
    arguments: [.wifi, .wired] as [NetworkConditions])
  func free(conditions: NetworkConditions) async throws {
    try await withSimulatedNetwork(conditions) { network in
      let words = Happenings()
      try await discretionaryTask(network, words).run { _ in words.say("runs") }
      #expect(await words.next() == "runs")
      try await network.waitForNoStreams()
    }
  }

  @Test("C8 a path of unknown cost → work that forbids costs waits, other work runs")
  func unknownCost() {
    var path = KernelPath(
      status: .satisfied, chain: [KernelPath.Link(index: 5, name: "wg0")], medium: .tunnel)
    path.costsMoney = nil
    let present = NetworkPath(path, family: .ipv4)
    var configuration = DiscretionaryTask.Config.defaults
    let refusal = NetworkUnavailableError(reason: .costUnknown, path: path)
    #expect(configuration.verdict(on: present) == .absent(refusal))
    #expect("\(refusal)" == "the cost of the path over wg0 is unknown")
    path.costsMoney = false
    #expect(configuration.verdict(on: NetworkPath(path, family: .ipv4)) == .free)
    configuration.access = .unrestricted
    #expect(configuration.verdict(on: present) == .free)
  }

  @Test("C8 while work waits, each change of the path is reported")
  func told() async throws {
    try await withSimulatedNetwork(.cellular, clock: StoppedClock()) { network in
      let words = Happenings()
      let task = discretionaryTask(network, words)
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

  @Test("C8 work for one destination waits for that destination's path")
  func destination() async throws {
    let server = try #require(IPAddress("198.18.0.80"))
    try await withSimulatedNetwork(.cellular) { network in
      let words = Happenings()
      let task = discretionaryTask(network, words) {
        $0.monitor = PathMonitor(
          .destination(server, mark: 0), socket: network.socket, maxWait: longPatience)
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
    "C8 a dual-stack path is allowed if each satisfied family's path is",
    arguments: [
      (PathSample.wifi, PathSample.wifi6, .inexpensive, nil),
      (PathSample.cellular, PathSample.none, .inexpensive, .expensive),
      (PathSample.cellular, PathSample.wifi6, .inexpensive, .expensive),
      (PathSample.cellular, PathSample.wifi6, .unrestricted, nil),
      (PathSample.wifi, PathSample.wifi6, NetworkAccess(prohibitedMedia: [.wifi]), .wifi),
      (PathSample.wifi, PathSample.none, .requiring([.wifi]), nil),
    ] as [(KernelPath, KernelPath, NetworkAccess, NetworkUnavailableError.Reason?)])
  func families(
    ipv4: KernelPath, ipv6: KernelPath, access: NetworkAccess,
    reason: NetworkUnavailableError.Reason?
  ) {
    let path = NetworkPath(PathSample.status(ipv4, ipv6))
    for isMonitors in [false, true] {
      var configuration = DiscretionaryTask.Config.defaults
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

  @Test("C8 work yields at its safe points while the path is forbidden, and continues from there")
  func yields() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      let words = Happenings()
      let task = discretionaryTask(network, words)
      async let run: Void = task.run { turn in
        for part in 1...3 {
          try await turn.wait()
          words.say("part \(part)")
          // Running work continues until its next safe point.
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

  @Test("C8 all tasks of one piece of work wait, and continue together")
  func together() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      let words = Happenings()
      let task = discretionaryTask(network, words)
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

  // MARK: Users

  @Test("C8 user-initiated work is never held back, and opens no stream")
  func userInitiated() async throws {
    try await withSimulatedNetwork(.cellular) { network in
      let words = Happenings()
      let task = discretionaryTask(network, words) { $0.isUserInitiated = true }
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

  @Test("C8 promoted work continues in all its runs, and no longer yields")
  func promoted() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      let words = Happenings()
      let task = discretionaryTask(network, words)
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

  @Test("C8 neither results nor captured values need to be Sendable")
  @MainActor
  func isolation() async throws {
    final class Local { var count = 0 }
    let local = Local()
    try await withSimulatedNetwork(.wifi) { network in
      let result = try await discretionaryTask(network, Happenings()).run { turn -> Local in
        local.count += 1
        try await turn.wait()
        MainActor.assertIsolated()
        return local
      }
      #expect(result.count == 1)
    }
  }
}
