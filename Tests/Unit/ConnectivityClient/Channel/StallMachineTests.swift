import Testing

@testable import ConnectivityClient

/// A machine with times in milliseconds.
private struct StallStory {
  private var machine: StallMachine
  private let start = ContinuousClock.now

  init(endsCalls: Bool = false) { self.machine = StallMachine(endsCalls: endsCalls) }

  mutating func at(_ time: Int, _ input: StallMachine.Input) -> [String] {
    self.machine.handle(input, at: self.start + .milliseconds(time)).map { action in
      switch action {
      case .sample(let pause): "sample \(pause / .milliseconds(1))"
      case .ping: "ping"
      case .hold: "hold"
      case .end(let socket, let silence):
        "end: \(socket.timeouts) in \(silence / .milliseconds(1))"
      case .stalled: "stalled"
      case .recovered: "recovered"
      }
    }
  }

  mutating func sample(
    at time: Int, calls: Int = 1, unacknowledged: Bool = true, timeouts: Int = 0,
    timeout: Int = 400
  ) -> [String] {
    let socket = StallMachine.SocketState(
      hasUnacknowledgedData: unacknowledged, timeouts: timeouts,
      timeout: .milliseconds(timeout), retransmissions: timeouts, roundTrip: .zero)
    return self.at(time, .sampled(.init(calls: calls, socket: socket)))
  }

  /// Reads the socket of a stalled connection.
  ///
  /// - Parameter heard: When a connection by another link was last heard.
  mutating func judge(
    at time: Int, calls: Int = 1, heard: Int? = 1500, mayEnd: Bool = true, timeouts: Int = 4,
    retransmissions: Int = 5
  ) -> [String] {
    let socket = StallMachine.SocketState(
      hasUnacknowledgedData: true, timeouts: timeouts, timeout: .seconds(2),
      retransmissions: retransmissions, roundTrip: .zero)
    let heardElsewhere = heard.map { self.start + .milliseconds($0) }
    return self.at(
      time,
      .sampled(
        .init(calls: calls, mayEnd: mayEnd, heardElsewhere: heardElsewhere, socket: socket)))
  }

  /// Reads the socket for a call that is about to begin.
  mutating func calling(
    at time: Int, unacknowledged: Bool = true, timeouts: Int, timeout: Int = 400
  ) -> [String] {
    let socket = StallMachine.SocketState(
      hasUnacknowledgedData: unacknowledged, timeouts: timeouts,
      timeout: .milliseconds(timeout), retransmissions: timeouts, roundTrip: .zero)
    return self.at(time, .calling(.init(calls: 1, socket: socket)))
  }

  func isSilent(at time: Int, calls: Int = 1) -> Bool {
    self.machine.isSilent(calls: calls, at: self.start + .milliseconds(time))
  }
}

@Suite("Stalls of a connection")
struct StallMachineTests {
  @Test(
    "W4 a call begins while data is unacknowledged → it waits after the first timeout, not before",
    arguments: [
      (true, 0, []), (true, 1, ["hold"]), (true, 2, ["hold"]), (false, 0, []), (false, 1, []),
    ] as [(Bool, Int, [String])])
  func holds(isUnacknowledged: Bool, timeouts: Int, actions: [String]) {
    var story = StallStory()
    _ = story.at(0, .called)
    #expect(
      story.calling(at: 500, unacknowledged: isUnacknowledged, timeouts: timeouts) == actions)
    // The system may not report sockets.
    #expect(story.at(500, .calling(.init(calls: 1, socket: nil))) == [])
  }

  @Test("W4 a call begins → it reads the socket only if the first timeout may have passed")
  func reads() {
    var story = StallStory()
    #expect(!story.isSilent(at: 0, calls: 0))
    _ = story.at(0, .called)
    #expect(!story.isSilent(at: 199) && story.isSilent(at: 200))
    // The first call was cancelled.
    #expect(story.isSilent(at: 200, calls: 0))
    _ = story.at(300, .received(isBusy: true))
    #expect(!story.isSilent(at: 499) && story.isSilent(at: 500))
    // All calls are answered.
    #expect(!story.isSilent(at: 500, calls: 0))
    _ = story.sample(at: 1000, calls: 0, unacknowledged: false)
    _ = story.at(60_000, .called)
    #expect(!story.isSilent(at: 60_100))
  }

  @Test("W4 the connection holds calls → a byte, or acknowledged data, ends that")
  func released() {
    var story = StallStory()
    _ = story.at(0, .called)
    _ = story.calling(at: 400, timeouts: 1)
    #expect(story.at(600, .received(isBusy: true)) == ["recovered"])
    #expect(story.at(601, .received(isBusy: true)) == [])
    _ = story.calling(at: 900, timeouts: 1)
    // The peer acknowledges the request, and is slow to answer it.
    #expect(story.sample(at: 1000, unacknowledged: false) == ["recovered", "sample 601.0"])
    _ = story.calling(at: 1200, timeouts: 1)
    // It acknowledges a part of an upload.
    #expect(story.sample(at: 1601, timeouts: 0, timeout: 250) == ["recovered", "sample 250.0"])
    _ = story.calling(at: 1700, timeouts: 1)
    #expect(story.sample(at: 1851, calls: 0, unacknowledged: false) == ["recovered"])
  }

  @Test("W4 the connection holds calls, and the second timeout passes → stalled")
  func holdsThenStalls() {
    var story = StallStory()
    _ = story.at(0, .called)
    #expect(story.calling(at: 400, timeouts: 1) == ["hold"])
    #expect(story.sample(at: 1000, timeouts: 1, timeout: 250) == ["sample 250.0"])
    #expect(story.sample(at: 1250, timeouts: 2) == ["stalled"])
    // An attempt beside the connection may have failed in the meantime.
    #expect(story.calling(at: 30_000, timeouts: 7) == ["hold"])
    #expect(story.at(31_000, .received(isBusy: false)) == ["recovered"])
  }

  @Test("W4 a call begins soon after an answer → the second of silence begins with the call")
  func soonAfter() {
    var story = StallStory()
    _ = story.at(0, .called)
    _ = story.at(10, .received(isBusy: false))
    _ = story.at(500, .called)
    #expect(!story.isSilent(at: 699) && story.isSilent(at: 700))
    #expect(story.sample(at: 1000, timeouts: 1) == ["sample 500.0"])
    #expect(story.sample(at: 1500, timeouts: 2) == ["stalled"])
  }

  @Test(
    "W8 the peer of an upload only acknowledges, and is lost → calls end five seconds after that")
  func upload() {
    var story = StallStory(endsCalls: true)
    _ = story.at(0, .called)
    _ = story.at(10, .received(isBusy: true))
    for time in stride(from: 1010, through: 30_000, by: 1000) {
      _ = story.sample(at: time, timeouts: 0)
    }
    #expect(story.judge(at: 31_540, heard: 31_000, timeouts: 3).first == "stalled")
    #expect(story.judge(at: 33_000, heard: 32_000, timeouts: 4).allSatisfy { !$0.hasPrefix("end") })
    // A byte by the other link from before the loss does not count.
    #expect(story.judge(at: 40_000, heard: 20_000, timeouts: 5).allSatisfy { !$0.hasPrefix("end") })
    #expect(story.judge(at: 41_000, heard: 32_000, timeouts: 5).contains { $0.hasPrefix("end") })
  }

  @Test("W4 a message of a stream is lost, and a call begins → it waits, and the socket is watched")
  func stream() {
    var story = StallStory()
    _ = story.at(0, .called)
    _ = story.at(10, .received(isBusy: true))
    #expect(story.sample(at: 1010, unacknowledged: false) == ["ping", "sample 400.0"])
    _ = story.at(1030, .received(isBusy: true))
    #expect(story.sample(at: 2030, unacknowledged: false) == [])
    #expect(story.calling(at: 9000, timeouts: 1, timeout: 440) == ["hold", "sample 440.0"])
    #expect(story.sample(at: 9440, timeouts: 2) == ["stalled"])
  }

  @Test("W4 a second of silence and two timeouts with unacknowledged data → stalled, once")
  func stalled() {
    var story = StallStory()
    #expect(story.at(0, .called) == ["sample 1000.0"])
    // Later calls find a look that is due.
    #expect(story.at(500, .called) == [])
    #expect(story.sample(at: 1000, timeouts: 2) == ["stalled"])
    #expect(story.at(1100, .called) == [])
    #expect(story.at(9000, .received(isBusy: true)) == ["recovered", "sample 1000.0"])
    #expect(story.at(9001, .received(isBusy: true)) == [])
  }

  @Test("W4 fewer timeouts → the socket is examined again after the next one")
  func waits() {
    var story = StallStory()
    _ = story.at(0, .called)
    #expect(story.sample(at: 1000, timeouts: 0, timeout: 250) == ["sample 250.0"])
    #expect(story.sample(at: 1250, timeouts: 1, timeout: 20) == ["sample 100.0"])
    #expect(story.sample(at: 1350, timeouts: 1, timeout: 3000) == ["sample 1000.0"])
    #expect(story.sample(at: 2350, timeouts: 3) == ["stalled"])
  }

  @Test("W4 bytes arrive → the second starts over, whatever the timeouts were")
  func heard() {
    var story = StallStory()
    _ = story.at(0, .called)
    #expect(story.at(700, .received(isBusy: true)) == [])
    #expect(story.sample(at: 1000, timeouts: 4) == ["sample 700.0"])
    #expect(story.at(1600, .received(isBusy: true)) == [])
    #expect(story.sample(at: 1700, timeouts: 4) == ["sample 900.0"])
  }

  @Test("W4 everything is acknowledged → one PING, and no timer after its answer")
  func ping() {
    var story = StallStory()
    _ = story.at(0, .called)
    #expect(story.sample(at: 1000, unacknowledged: false) == ["ping", "sample 400.0"])
    // The answer to the PING arrives.
    #expect(story.at(1020, .received(isBusy: true)) == [])
    #expect(story.sample(at: 1400, unacknowledged: false) == ["sample 620.0"])
    #expect(story.sample(at: 2020, unacknowledged: false) == [])
  }

  @Test("W4 the PING is not acknowledged → stalled after its two timeouts")
  func unanswered() {
    var story = StallStory()
    _ = story.at(0, .called)
    _ = story.sample(at: 1000, unacknowledged: false)
    #expect(story.sample(at: 1400, timeouts: 1, timeout: 400) == ["sample 400.0"])
    #expect(story.sample(at: 1800, timeouts: 2) == ["stalled"])
  }

  @Test("W4 messages keep coming with pauses → at most one PING a minute")
  func rareMessages() {
    var story = StallStory()
    var pings: [Int] = []
    _ = story.at(0, .called)
    for second in stride(from: 0, to: 180_000, by: 5000) {
      _ = story.at(second, .received(isBusy: true))
      for time in stride(from: second + 1000, to: second + 5000, by: 1000) {
        if story.sample(at: time, unacknowledged: false).contains("ping") { pings.append(time) }
      }
    }
    #expect(pings == [1000, 61000, 121000])
  }

  @Test("W4 no calls run, and everything is acknowledged → no timer")
  func idle() {
    var story = StallStory()
    _ = story.at(0, .called)
    #expect(story.sample(at: 1000, calls: 0, unacknowledged: false) == [])
    #expect(story.at(2000, .received(isBusy: false)) == [])
    #expect(story.at(60_000, .called) == ["sample 1000.0"])
  }

  @Test("W4 the call was cancelled, and its data is not acknowledged → stalled all the same")
  func cancelled() {
    var story = StallStory()
    _ = story.at(0, .called)
    #expect(story.sample(at: 1000, calls: 0, timeouts: 2) == ["stalled"])
  }

  @Test("W4 the system does not report sockets → nothing stalls")
  func unknown() {
    var story = StallStory()
    _ = story.at(0, .called)
    #expect(story.at(1000, .sampled(.init(calls: 1, socket: nil))) == [])
  }
}

@Suite("Calls on a stalled connection")
struct StalledCallTests {
  /// A story with a call that began at 0, on a connection that has stalled.
  private func stalled() -> StallStory {
    var story = StallStory(endsCalls: true)
    _ = story.at(0, .called)
    #expect(
      story.judge(at: 1000, heard: nil, timeouts: 2, retransmissions: 2)
        == ["stalled", "sample 1000.0"])
    return story
  }

  @Test("W8 five seconds without a byte, three timeouts, and another link reaches the server → end")
  func ends() {
    var story = self.stalled()
    #expect(story.judge(at: 2000) == ["sample 1000.0"])
    #expect(story.judge(at: 4500) == ["sample 500.0"])
    #expect(story.judge(at: 4999) == ["sample 100.0"])
    #expect(story.judge(at: 5000) == ["end: 4 in 5000.0"])
  }

  @Test(
    "W8 a condition is not met → the calls go on, and the socket is read again",
    arguments: [
      // No other link reaches the server, or it was not heard in this silence.
      (nil, true, 4, 5), (-1, true, 4, 5), (0, true, 4, 5),
      // The channel keeps its streams.
      (1500, false, 4, 5),
      // Too few timeouts, or nothing was sent at them.
      (1500, true, 2, 5), (1500, true, 4, 2),
    ] as [(Int?, Bool, Int, Int)])
  func goesOn(heard: Int?, mayEnd: Bool, timeouts: Int, retransmissions: Int) {
    var story = self.stalled()
    #expect(
      story.judge(
        at: 9000, heard: heard, mayEnd: mayEnd, timeouts: timeouts,
        retransmissions: retransmissions) == ["sample 1000.0"])
    #expect(story.judge(at: 10_000) == ["end: 4 in 10000.0"])
  }

  @Test("W8 packets were retransmitted before the silence → those do not count")
  func formerRetransmissions() {
    var story = StallStory(endsCalls: true)
    _ = story.at(0, .called)
    _ = story.judge(at: 500, timeouts: 0, retransmissions: 20)
    _ = story.judge(at: 1000, timeouts: 2, retransmissions: 22)
    #expect(story.judge(at: 6000, timeouts: 3, retransmissions: 22) == ["sample 1000.0"])
    #expect(story.judge(at: 7000, timeouts: 4, retransmissions: 23) == ["end: 4 in 7000.0"])
  }

  @Test("W8 a byte arrives → the five seconds start over, and need another contrast")
  func heard() {
    var story = self.stalled()
    #expect(story.at(4000, .received(isBusy: true)) == ["recovered"])
    #expect(story.judge(at: 5000, timeouts: 2, retransmissions: 4) == ["stalled", "sample 1000.0"])
    #expect(story.judge(at: 8999) == ["sample 100.0"])
    #expect(story.judge(at: 9000, heard: 3999) == ["sample 1000.0"])
    #expect(story.judge(at: 10_000, heard: 4001) == ["end: 4 in 6000.0"])
  }

  @Test("W8 a later call had to use the stalled connection → it has five seconds, too")
  func laterCall() {
    var story = self.stalled()
    _ = story.at(3000, .called)
    #expect(story.judge(at: 5000) == ["sample 1000.0"])
    #expect(story.judge(at: 8000) == ["end: 4 in 8000.0"])
  }

  @Test("W8 all calls have ended → no timer until the next call")
  func idle() {
    var story = self.stalled()
    #expect(story.judge(at: 2000, calls: 0) == [])
    #expect(story.at(3000, .called) == ["sample 1000.0"])
    #expect(story.judge(at: 8000) == ["end: 4 in 8000.0"])
  }

  @Test("W8 the stalled connection's data is acknowledged → it takes calls again")
  func acknowledged() {
    var story = self.stalled()
    #expect(
      story.sample(at: 2000, unacknowledged: false) == ["recovered", "ping", "sample 400.0"])
  }

  @Test("W8 the channel ends no calls → the socket of a stalled connection is not read")
  func never() {
    var story = StallStory(endsCalls: false)
    _ = story.at(0, .called)
    #expect(story.judge(at: 1000) == ["stalled"])
    #expect(story.at(2000, .called) == [])
  }
}

@Suite("The time on the other way")
struct OtherWayStayTests {
  private let start = ContinuousClock.now

  private func at(_ seconds: Double) -> ContinuousClock.Instant { self.start + .seconds(seconds) }

  @Test("W7 calls try the default way at most once in five seconds")
  func trials() {
    var stay = OtherWayStay(since: self.start)
    var trials: [Double] = []
    for call in stride(from: 0.5, to: 30, by: 0.5) {
      guard stay.called(at: self.at(call)) == .tryDefaultWay else { continue }
      trials.append(call)
      #expect(stay.called(at: self.at(call + 0.1)) == nil)
      #expect(stay.tried(.failed) == nil)
    }
    #expect(trials == [5, 10, 15, 20, 25])
  }

  @Test("W7 a trial is still running → no other begins")
  func oneAtATime() {
    var stay = OtherWayStay(since: self.start)
    #expect(stay.called(at: self.at(5)) == .tryDefaultWay)
    #expect(stay.called(at: self.at(11)) == nil)
    #expect(stay.tried(.failed) == nil)
    #expect(stay.called(at: self.at(12)) == .tryDefaultWay)
  }

  @Test("W7 a trial succeeds only after a retransmission → one more at once")
  func limping() {
    var stay = OtherWayStay(since: self.start)
    #expect(stay.called(at: self.at(5)) == .tryDefaultWay)
    #expect(stay.tried(.limping) == .tryDefaultWay)
    #expect(stay.called(at: self.at(10)) == nil)
    #expect(stay.tried(.limping) == nil)
    #expect(stay.called(at: self.at(9)) == nil)
    #expect(stay.called(at: self.at(10)) == .tryDefaultWay)
    #expect(stay.tried(.limping) == .tryDefaultWay)
  }

  @Test("W7 after two minutes the next call takes the default way")
  func end() {
    var stay = OtherWayStay(since: self.start)
    #expect(stay.called(at: self.at(119)) == .tryDefaultWay)
    #expect(stay.called(at: self.at(120)) == .end)
  }
}
