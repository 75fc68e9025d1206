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
    #expect(story.stalled(1, isBusy: false) == [])
    return story
  }

  @Test("W4 a stalled connection takes no new calls: they get the next one, and it is retired")
  func stalls() {
    var story = self.stalled()
    #expect(story.machine.ready == nil)
    #expect(story.call(2) == ["connecting", "connect 2 20.0"])
    #expect(story.machine.silentConnection(beside: 2)?.id == 1)
    #expect(story.call(3) == [])
    #expect(story.connected(2) == ["ready", "resume [2, 3] on 2", "retire 1"])
    #expect(story.machine.ready == 2)
    // The retired one no longer concerns the machine.
    #expect(story.recovered(1) == [])
    #expect(story.lost(1) == [] && story.closed(1) == [] && story.invalidated(1) == [])
    #expect(story.machine.ready == 2)
  }

  @Test("W4 a connection with calls stalls → an attempt begins beside it without another call")
  func stallsUnderCalls() {
    var story = Story()
    _ = story.call(1)
    _ = story.connected(1)
    #expect(story.stalled(1, isBusy: true) == ["connecting", "connect 2 20.0"])
    #expect(story.call(2) == [])
    #expect(story.connected(2) == ["ready", "resume [2] on 2", "retire 1"])
  }

  @Test("W4 a connection holds calls → the next call waits for an attempt beside it, or an answer")
  func holds() {
    var story = Story()
    _ = story.call(1)
    _ = story.connected(1)
    story.holdCalls(1)
    #expect(story.machine.ready == nil && story.machine.current == 1)
    #expect(story.call(2) == ["connecting", "connect 2 20.0"])
    #expect(story.recovered(1) == ["ready", "resume [2] on 1"])
    #expect(!story.machine.isConnecting(2))
    story.holdCalls(1)
    #expect(story.call(3) == ["connecting", "connect 3 20.0"])
    #expect(story.connected(3) == ["ready", "resume [3] on 3", "retire 1"])
  }

  @Test("W3 W4 a connection that holds calls stalls during the attempt → the attempt learns when")
  func stallsLater() {
    var story = Story()
    _ = story.call(1)
    _ = story.connected(1)
    story.holdCalls(1)
    _ = story.call(2)
    #expect(story.machine.silentConnection(beside: 2)?.stalledSince == nil)
    story.after(0.5)
    #expect(story.stalled(1, isBusy: true) == [])
    #expect(story.machine.silentConnection(beside: 2)?.stalledSince == story.instant)
    // A connection that was not heard since has stalled, whether or not it holds calls.
    _ = story.failed(2)
    story.after(2)
    story.holdCalls(1)
    _ = story.call(3)
    #expect(story.machine.silentConnection(beside: 3)?.stalledSince != nil)
    _ = story.recovered(1)
    story.holdCalls(1)
    _ = story.call(4)
    #expect(story.machine.silentConnection(beside: 4)?.stalledSince == nil)
  }

  @Test("W4 attempts beside a silent connection fail → the backoff applies to the next one")
  func backoff() {
    var story = Story()
    _ = story.call(1)
    _ = story.connected(1)
    story.holdCalls(1)
    _ = story.call(2)
    story.after(0.25)
    #expect(story.failed(2) == ["ready", "resume [2] on 1", "wake 1.0"])
    story.holdCalls(1)
    #expect(story.call(3) == ["resume [3] on 1"])
    // Counted from the start of the attempt.
    story.after(0.75)
    story.holdCalls(1)
    #expect(story.call(4) == ["connecting", "connect 3 20.0"])
    _ = story.failed(3)
    story.after(1.5)
    story.holdCalls(1)
    #expect(story.call(5) == ["resume [5] on 1"])
    story.after(0.1)
    story.holdCalls(1)
    #expect(story.call(6) == ["connecting", "connect 4 20.0"])
  }

  @Test("W4 W7 a connection by the other way stalls during a trial → an attempt replaces the trial")
  func stallsDuringTrial() {
    var story = Story()
    _ = story.call(1)
    _ = story.connected(1)
    _ = story.machine.beginTrial(now: story.instant)
    #expect(story.stalled(1, isBusy: true) == ["connecting", "connect 3 20.0"])
    #expect(!story.machine.isConnecting(2))
    #expect(story.recovered(1) == ["ready"])
    #expect(story.machine.beginTrial(now: story.instant) == 4)
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
    #expect(story.failed(2) == ["ready", "resume [2] on 1", "wake 1.0"])
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
        == ["fail [2] permissionDenied", "ready", "resume [3] on 1", "wake 1.0"])
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
    #expect(story.machine.silentConnection(beside: 2) == nil && story.machine.isConnecting(2))
    #expect(story.failed(2) == ["transientFailure", "fail [2] unavailable"])
  }

  @Test(
    "W4 C3 the attempt's network is gone → another attempt beside the stalled connection",
    arguments: [true, false])
  func invalidated(waits: Bool) {
    var story = self.stalled()
    if waits { _ = story.call(2) } else { _ = story.stalled(1, isBusy: true) }
    #expect(story.invalidated(2) == ["transientFailure", "connecting", "connect 3 20.0"])
    #expect(story.machine.silentConnection(beside: 3)?.id == 1)
    #expect(story.recovered(1) == (waits ? ["ready", "resume [2] on 1"] : ["ready"]))
  }

  @Test("W4 I10 the stalled connection has no path → calls wait for that, and start no attempt")
  func suspended() {
    var story = self.stalled()
    _ = story.suspend(1, true)
    #expect(story.call(2) == [])
    #expect(story.recovered(1) == [])
    #expect(story.suspend(1, false) == ["resume [2] on 1"])
  }

  @Test(
    "W4 I10 the path is back, but the connection still holds calls → an attempt begins beside it")
  func heldAndSuspended() {
    var story = self.stalled()
    _ = story.suspend(1, true)
    #expect(story.call(2) == [])
    #expect(story.suspend(1, false) == ["connecting", "connect 2 20.0"])
    #expect(story.recovered(1) == ["ready", "resume [2] on 1"])
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
