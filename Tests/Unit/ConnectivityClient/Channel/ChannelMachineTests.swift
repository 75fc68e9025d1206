import GRPCCore
import GRPCNIOTransportHTTP2Posix
import Testing

@testable import ConnectivityClient
@testable import ConnectivityMonitor

@Suite("Channel state machine")
struct ChannelMachineTests {
  @Test(
    "C1 the first call starts the connection, calls in between wait for it, later ones use it"
  )
  func first() {
    var story = Story()
    #expect(story.call(1) == ["connecting", "connect 1 20.0"])
    #expect(story.call(2) == [])
    #expect(story.connected(1) == ["ready", "resume [1, 2] on 1"])
    #expect(story.machine.ready == 1)
    #expect(story.call(3) == ["resume [3] on 1"])
  }

  @Test("C4 a call during the backoff waits for the next attempt and its result")
  func backoff() {
    var story = Story()
    _ = story.call(1)
    story.after(0.25)
    #expect(story.failed(1) == ["transientFailure", "fail [1] unavailable"])
    // Counted from the start of the attempt.
    #expect(story.call(2) == ["wake 1.0"])
    #expect(story.call(3) == [])
    story.after(0.75)
    #expect(story.wake() == ["connecting", "connect 2 20.0"])
    #expect(story.failed(2) == ["transientFailure", "fail [2, 3] unavailable"])
    #expect(story.call(4) == ["wake 2.6"])
    story.after(1.6)
    #expect(story.wake() == ["connecting", "connect 3 20.0"])
    #expect(story.connected(3) == ["ready", "resume [4] on 3"])
  }

  @Test("C4 a call has to wait for the backoff or a lost path → the machine says so")
  func toldToWait() {
    var story = Story()
    _ = story.call(1)
    _ = story.call(2, forReady: true)
    #expect(story.newlyTold() == [])
    _ = story.failed(1)
    #expect(story.newlyTold() == [2])
    _ = story.call(3)
    #expect(story.newlyTold().contains(3))
    story.after(1)
    _ = story.wake()
    _ = story.connected(2)
    _ = story.call(4)
    #expect(story.newlyTold() == [])
    _ = story.suspend(2, true)
    _ = story.call(5)
    #expect(story.newlyTold() == [5])
  }

  @Test("C3 the network of a connection is gone → calls reconnect without being told to wait")
  func notToldToWait() {
    var story = Story()
    _ = story.call(1)
    _ = story.connected(1)
    _ = story.invalidated(1)
    #expect(story.call(2) == ["connecting", "connect 2 20.0"])
    #expect(story.newlyTold() == [])
  }

  @Test("C4 without a call nothing is tried")
  func noCalls() {
    var story = Story()
    _ = story.call(1)
    _ = story.failed(1)
    story.after(100)
    #expect(story.wake() == [])
    #expect(story.pathSatisfied() == [])
    #expect(story.call(2) == ["connecting", "connect 2 20.0"])
  }

  @Test(
    "C4 pauses grow by 1.6 up to 120 s with 20 % jitter, and restart after the server's SETTINGS"
  )
  func pauses() throws {
    var story = Story()
    var pauses: [Double] = []
    for call in 1...14 as ClosedRange<UInt64> {
      let begun = story.now
      _ = story.call(call)
      _ = story.failed(call, random: 0)
      let wake = story.call(100 + call).first ?? ""
      story.machine.cancel(100 + call)
      let end = try #require(Double(wake.dropFirst(5)))
      pauses.append(end - begun)
      story.now = end + 0.000_001
      _ = story.wake()
    }
    #expect(pauses.prefix(3).map { ($0 * 100).rounded() } == [100, 160, 256])
    #expect(abs((pauses.last ?? 0) - 120) < 0.001)
    _ = story.call(50)
    _ = story.connected(15)
    _ = story.closed(15)
    _ = story.call(51)
    _ = story.failed(16)
    let wake = try #require(story.call(52).first)
    let end = try #require(Double(wake.dropFirst(5)))
    #expect(abs(end - story.now - 1) < 0.000_01)
  }

  @Test("C4 an attempt may last as long as its pause, and at least 20 s")
  func attempts() {
    var backoff = ConnectionBackoff(.defaults)
    var longest: [Double] = []
    for _ in 0..<12 {
      longest.append(backoff.maxAttempt / .seconds(1))
      _ = backoff.next(random: 1)
    }
    #expect(longest.prefix(7).allSatisfy { $0 == 20 })
    #expect(longest.last == 120)
    #expect(zip(longest, longest.dropFirst()).allSatisfy { $0 <= $1 })
  }

  @Test(
    "C4 the jitter is a fifth of the pause, and the first pause has none", arguments: [-1.0, 1])
  func jitter(random: Double) {
    var backoff = ConnectionBackoff(.defaults)
    #expect(backoff.next(random: random) == .seconds(1))
    #expect(abs(backoff.next(random: random) / .seconds(1) - 1.6 * (1 + 0.2 * random)) < 1e-9)
    #expect(abs(backoff.next(random: random) / .seconds(1) - 2.56 * (1 + 0.2 * random)) < 1e-9)
  }

  @Test("C4 a path that becomes satisfied cuts the backoff short")
  func satisfied() {
    var story = Story()
    _ = story.call(1)
    _ = story.failed(1)
    #expect(story.call(2) == ["wake 1.0"])
    story.after(0.1)
    #expect(story.pathSatisfied() == ["connecting", "connect 2 20.0"])
    #expect(story.pathSatisfied() == [])
    // The old timer fires without effect.
    story.after(0.9)
    #expect(story.wake() == [])
  }

  @Test("C5 C8 a failure that used no network → the next call tries again immediately")
  func atOnce() {
    var story = Story()
    _ = story.call(1)
    #expect(story.failed(1, atOnce: true) == ["transientFailure", "fail [1] unavailable"])
    #expect(story.call(2) == ["connecting", "connect 2 20.0"])
  }

  @Test("calls that wait for ready wait through failures, with the backoff's pauses")
  func waitForReady() {
    var story = Story()
    _ = story.call(1, forReady: true)
    _ = story.call(2)
    #expect(
      story.failed(1, atOnce: true) == ["transientFailure", "fail [2] unavailable", "wake 1.0"])
    story.after(1)
    #expect(story.wake() == ["connecting", "connect 2 20.0"])
    #expect(story.connected(2) == ["ready", "resume [1] on 2"])
  }

  @Test(
    "C8 a call that may use no path stops waiting; one that came too late causes another attempt immediately"
  )
  func refused() {
    var story = Story()
    _ = story.call(1, forReady: true)
    _ = story.call(2)
    #expect(
      story.failed(1, refused: [1, 2], spared: []) == [
        "transientFailure", "fail [1] permissionDenied", "fail [2] permissionDenied",
      ])
    // No server was contacted, so the next call may try immediately.
    #expect(story.call(3) == ["connecting", "connect 2 20.0"])
    _ = story.call(4)
    #expect(
      story.failed(2, refused: [3], spared: [4]) == [
        "transientFailure", "fail [3] permissionDenied", "connecting", "connect 3 20.0",
      ])
    #expect(story.connected(3) == ["ready", "resume [4] on 3"])
  }

  @Test("C3 an invalidation leaves no backoff behind")
  func invalidated() {
    var story = Story()
    _ = story.call(1)
    _ = story.connected(1)
    #expect(story.invalidated(1) == ["transientFailure"])
    #expect(story.machine.ready == nil)
    #expect(story.call(2) == ["connecting", "connect 2 20.0"])
    // Nor in the middle of an attempt: waiting calls keep waiting, for the next one.
    #expect(story.invalidated(2) == ["transientFailure", "connecting", "connect 3 20.0"])
    #expect(story.connected(2) == [])
    #expect(story.failed(2) == [])
    #expect(story.connected(3) == ["ready", "resume [2] on 3"])
  }

  @Test("events of a connection that is no longer in use change nothing")
  func former() {
    var story = Story()
    _ = story.call(1)
    _ = story.connected(1)
    _ = story.invalidated(1)
    _ = story.call(2)
    _ = story.connected(2)
    #expect(story.lost(1) == [])
    #expect(story.closed(1) == [])
    #expect(story.invalidated(1) == [])
    #expect(story.machine.ready == 2)
  }

  @Test("C4 a lost connection is made again by the next call, at most once a second")
  func lost() {
    var story = Story()
    _ = story.call(1)
    _ = story.connected(1)
    story.after(0.5)
    #expect(story.lost(1) == ["transientFailure"])
    #expect(story.call(2) == ["wake 1.0"])
    story.after(0.5)
    #expect(story.wake() == ["connecting", "connect 2 20.0"])
    _ = story.connected(2)
    story.after(60)
    #expect(story.lost(2) == ["transientFailure"])
    #expect(story.call(3) == ["connecting", "connect 3 20.0"])
  }

  @Test(
    "C4 a server that sends GOAWAY right after its SETTINGS is tried again at most once a second")
  func farewell() {
    var story = Story()
    _ = story.call(1)
    _ = story.connected(1)
    #expect(story.closed(1, wasUsed: false) == ["idle"])
    #expect(story.call(2) == ["wake 1.0"])
    story.after(1)
    #expect(story.wake() == ["connecting", "connect 2 20.0"])
    _ = story.connected(2)
    #expect(story.closed(2) == ["idle"])
    #expect(story.call(3) == ["connecting", "connect 3 20.0"])
  }

  @Test("C4 a path change during an attempt counts when the attempt fails")
  func news() {
    var story = Story()
    _ = story.call(1)
    #expect(story.pathSatisfied() == [])
    #expect(story.failed(1) == ["transientFailure", "fail [1] unavailable"])
    #expect(story.call(2) == ["connecting", "connect 2 20.0"])
    // Only once.
    _ = story.failed(2)
    #expect(story.call(3) == ["wake 1.0"])
  }

  @Test("I10 calls wait while the connection has no path")
  func suspended() {
    var story = Story()
    _ = story.call(1)
    _ = story.connected(1)
    #expect(story.suspend(1, true) == [])
    #expect(story.machine.ready == nil)
    #expect(story.machine.connectivity == .ready)
    #expect(story.call(2) == [])
    #expect(story.suspend(1, false) == ["resume [2] on 1"])
    #expect(story.call(3) == ["resume [3] on 1"])
    // The path does not come back: waiting calls use the next connection.
    _ = story.suspend(1, true)
    #expect(story.call(4) == [])
    #expect(story.invalidated(1) == ["transientFailure", "connecting", "connect 2 20.0"])
    #expect(story.connected(2) == ["ready", "resume [4] on 2"])
    #expect(story.suspend(1, true) == [])
    _ = story.suspend(2, true)
    #expect(story.call(5) == [])
    story.after(2)
    #expect(story.lost(2) == ["transientFailure", "connecting", "connect 3 20.0"])
    _ = story.connected(3)
    _ = story.suspend(3, true)
    #expect(story.call(6) == [])
    #expect(story.closed(3) == ["idle", "connecting", "connect 4 20.0"])
  }

  @Test("cancelled calls are forgotten")
  func cancelled() {
    var story = Story()
    _ = story.call(1)
    _ = story.call(2)
    story.machine.cancel(1)
    #expect(story.connected(1) == ["ready", "resume [2] on 1"])
  }

  @Test("nothing begins after the shutdown")
  func shutdown() {
    var story = Story()
    _ = story.call(1)
    #expect(story.shutdown() == ["shutdown", "fail [1] unavailable"])
    #expect(story.shutdown() == [])
    #expect(story.call(2) == ["fail [2] unavailable"])
    #expect(story.connected(1) == [])
    #expect(story.wake() == [])
    #expect(story.pathSatisfied() == [])
  }
}
