import Testing

@testable import ConnectivityClient

/// Attempts beside a stalled connection after one that failed (W4).
@Suite("Channel state machine: attempts beside a stall")
struct StallRetryTests {
  /// A story with a connection 1 in use.
  private func inUse() -> Story {
    var story = Story()
    _ = story.call(1)
    _ = story.connected(1)
    return story
  }

  @Test(
    "W4 an attempt fails beside a stalled connection with calls → another one after the backoff",
    arguments: [
      ("calls run", ["connecting", "connect 3 20.0"]), ("no calls run", []), ("recovered", []),
      ("no path", []), ("never stalled", []),
    ] as [(String, [String])])
  func triesAgain(situation: String, next: [String]) {
    var story = self.inUse()
    story.holdCalls(1)
    _ = story.call(2)
    if situation != "never stalled" { _ = story.stalled(1, isBusy: true) }
    story.after(0.25)
    #expect(story.failed(2) == ["ready", "resume [2] on 1", "wake 1.0"])
    if situation == "recovered" { _ = story.recovered(1) }
    if situation == "no path" { _ = story.suspend(1, true) }
    // Another timer fires.
    #expect(story.wake(isBusy: true) == [])
    story.after(0.75)
    #expect(story.wake(isBusy: situation != "no calls run") == next)
  }

  @Test("W4 an attempt lasts longer than its pause → the next one begins when it fails")
  func triesAgainImmediately() {
    var story = self.inUse()
    _ = story.stalled(1, isBusy: true)
    let stalled = story.instant
    story.after(20)
    #expect(story.failed(2) == ["ready", "wake 1.0"])
    #expect(story.wake(isBusy: true) == ["connecting", "connect 3 20.0"])
    #expect(story.machine.silentConnection(beside: 3)?.stalledSince == stalled)
    #expect(story.connected(3) == ["ready", "retire 1"])
  }

  @Test(
    "W4 the server refuses attempts beside stalls for a minute → they keep to the backoff",
    arguments: [
      (false, [0, 1, 3, 6, 10.5, 17.5, 28, 45]), (true, [0, 1, 3, 6, 11, 18, 29, 46]),
    ] as [(Bool, [Double])])
  func refusesAttempts(recovers: Bool, starts: [Double]) {
    var story = self.inUse()
    var found: [Double] = []
    for step in 0..<120 {
      if recovers, step % 2 == 1 { _ = story.recovered(1) }
      let stalls = step == 0 || recovers && step % 2 == 0
      let actions = stalls ? story.stalled(1, isBusy: true) : story.wake(isBusy: true)
      if !actions.isEmpty {
        found.append(story.now)
        // It fails although nothing was sent, as for a name that cannot be resolved.
        _ = story.failed(UInt64(found.count) + 1, atOnce: found.count % 2 == 0)
      }
      story.after(0.5)
    }
    #expect(found == starts)
  }

  @Test("W4 a stall begins during the backoff → calls use the connection, and then wait")
  func stallsDuringBackoff() {
    var story = self.inUse()
    story.holdCalls(1)
    _ = story.call(2)
    _ = story.failed(2)
    #expect(story.stalled(1, isBusy: true) == [])
    #expect(story.call(3) == ["resume [3] on 1"])
    story.after(1)
    #expect(story.wake(isBusy: true) == ["connecting", "connect 3 20.0"])
    #expect(story.call(4) == [])
  }

  @Test("W4 E2 connd advises during the backoff → no attempt, and one after the backoff")
  func advised() {
    var story = self.inUse()
    #expect(story.silent(1) == ["connecting", "connect 2 20.0"])
    _ = story.failed(2)
    _ = story.recovered(1)
    #expect(story.silent(1) == [])
    #expect(story.machine.ready == 1)
    story.after(1)
    #expect(story.silent(1) == ["connecting", "connect 3 20.0"])
  }

  @Test(
    "W4 C4 a path becomes satisfied during the backoff → an attempt for the calls in a stall",
    arguments: [(true, ["connecting", "connect 3 20.0"]), (false, [])] as [(Bool, [String])])
  func satisfied(isBusy: Bool, next: [String]) {
    var story = self.inUse()
    _ = story.stalled(1, isBusy: true)
    _ = story.failed(2)
    story.after(0.25)
    #expect(story.pathSatisfied(isBusy: isBusy) == next)
    if !isBusy {
      story.holdCalls(1)
      #expect(story.call(2) == ["connecting", "connect 3 20.0"])
    }
    // During the attempt: its failure does not predict the next one.
    #expect(story.pathSatisfied(isBusy: isBusy) == [])
    #expect(story.failed(3).last == "wake 0.25")
    #expect(story.wake(isBusy: true) == ["connecting", "connect 4 20.0"])
  }

  @Test("W4 the connection in use has not stalled, and a path becomes satisfied → no attempt")
  func satisfiedBesideUse() {
    var story = self.inUse()
    #expect(story.pathSatisfied(isBusy: true) == [])
    #expect(story.wake(isBusy: true) == [])
  }
}
