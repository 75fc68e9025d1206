import GRPCCore
import Testing

@testable import ConnectivityClient

/// Stalled connections (W4) and the return from the other way (W7).
@Suite("Channel state machine: the other way")
struct OtherWayChannelMachineTests {
  /// A story with a connection 1 in use, which then stalls.
  private func stalled() -> Story {
    var story = Story()
    _ = story.call(1)
    _ = story.connected(1)
    story.machine.stalled(1)
    return story
  }

  @Test("W4 a stalled connection takes no new calls: they get the next one, and it is retired")
  func stalls() {
    var story = self.stalled()
    #expect(story.machine.ready == nil)
    #expect(story.call(2) == ["connecting", "connect 2 20.0"])
    #expect(story.machine.isBesideStalled(2))
    #expect(story.call(3) == [])
    #expect(story.connected(2) == ["ready", "resume [2, 3] on 2", "retire 1"])
    #expect(story.machine.ready == 2)
    // The retired one no longer concerns the machine.
    #expect(story.recovered(1) == [])
    #expect(story.lost(1) == [] && story.closed(1) == [] && story.invalidated(1) == [])
    #expect(story.machine.ready == 2)
  }

  @Test("W4 the stalled connection goes on first → the waiting calls use it")
  func recovers() {
    var story = self.stalled()
    _ = story.call(2)
    #expect(story.recovered(1) == ["ready", "resume [2] on 1"])
    #expect(!story.machine.isConnecting(2))
    #expect(story.connected(2) == [])
    #expect(story.machine.ready == 1)
  }

  @Test("W4 the connection recovers before a call came → nothing has happened")
  func recoversUnseen() {
    var story = self.stalled()
    #expect(story.recovered(1) == [])
    #expect(story.call(2) == ["resume [2] on 1"])
  }

  @Test("W4 the attempt beside a stalled connection fails → calls wait on that, without a backoff")
  func fails() {
    var story = self.stalled()
    _ = story.call(2)
    #expect(story.failed(2) == ["ready", "resume [2] on 1"])
    #expect(story.call(3) == ["resume [3] on 1"])
  }

  @Test(
    "W4 C8 the attempt beside a stalled connection is refused for a call → only that call fails")
  func refused() {
    var story = self.stalled()
    _ = story.call(2)
    _ = story.call(3)
    #expect(
      story.failed(2, refused: [2], spared: [])
        == ["fail [2] permissionDenied", "ready", "resume [3] on 1"])
  }

  @Test(
    "W4 the stalled connection ends → the attempt beside it goes on alone",
    arguments: ["lost", "closed", "invalidated"])
  func ends(how: String) {
    var story = self.stalled()
    _ = story.call(2)
    let ended =
      switch how {
      case "lost": story.lost(1)
      case "closed": story.closed(1)
      default: story.invalidated(1)
      }
    #expect(ended == [])
    #expect(!story.machine.isBesideStalled(2) && story.machine.isConnecting(2))
    #expect(story.failed(2) == ["transientFailure", "fail [2] unavailable"])
  }

  @Test("W4 C3 the attempt's network is gone → another attempt, and the stalled one is retired")
  func invalidated() {
    var story = self.stalled()
    _ = story.call(2)
    #expect(
      story.invalidated(2)
        == ["transientFailure", "retire 1", "connecting", "connect 3 20.0"])
    #expect(!story.machine.isBesideStalled(3))
  }

  @Test("W4 I10 the stalled connection has no path → calls wait for that, and start no attempt")
  func suspended() {
    var story = self.stalled()
    _ = story.suspend(1, true)
    #expect(story.call(2) == [])
    #expect(story.recovered(1) == [])
    #expect(story.suspend(1, false) == ["resume [2] on 1"])
  }

  @Test("W7 a trial's connection takes over, and the former one is retired")
  func trial() {
    var story = Story()
    _ = story.call(1)
    _ = story.connected(1)
    #expect(story.machine.beginTrial(now: story.instant) == 2)
    // One at a time, beside the calls.
    #expect(story.machine.beginTrial(now: story.instant) == nil)
    #expect(story.machine.isConnecting(2) && story.machine.ready == 1)
    #expect(story.call(2) == ["resume [2] on 1"])
    #expect(story.connected(2) == ["retire 1"])
    #expect(story.machine.ready == 2 && !story.machine.isConnecting(2))
  }

  @Test("W7 a trial fails → the connection in use stays")
  func trialFails() {
    var story = Story()
    #expect(story.machine.beginTrial(now: story.instant) == nil)
    _ = story.call(1)
    _ = story.connected(1)
    _ = story.machine.beginTrial(now: story.instant)
    story.machine.trialFailed(2)
    #expect(!story.machine.isConnecting(2))
    #expect(story.connected(2) == [] && story.machine.ready == 1)
    #expect(story.machine.beginTrial(now: story.instant) == 3)
  }

  @Test("W7 the connection in use ends during a trial → the trial is given up")
  func endsDuringTrial() {
    var story = Story()
    _ = story.call(1)
    _ = story.connected(1)
    _ = story.machine.beginTrial(now: story.instant)
    #expect(story.closed(1) == ["idle"])
    #expect(!story.machine.isConnecting(2))
    #expect(story.connected(2) == [])
    #expect(story.call(2) == ["connecting", "connect 3 20.0"])
  }
}
