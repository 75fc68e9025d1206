import Connectivity
import NIOCore
import NIOEmbedded
import Synchronization
import Testing

@testable import ConnectivityClient
@testable import ConnectivityMonitor

@Suite("Reports of connd's absence")
struct PathTellerTests {
  private static let wifi = NetworkPath(PathSample.wifi, family: .ipv4)
  private static let cellular = NetworkPath(PathSample.cellular, family: .ipv4)

  /// A teller, its clock, and its reports.
  private final class Story: Sendable {
    private let told = Mutex<[NetworkPath]>([])
    private let loop = EmbeddedEventLoop()
    private let teller = Mutex<PathTeller?>(nil)

    init() {
      let teller = PathTeller(maxWait: PathMonitor.maxWait) { [loop] duration, work in
        let timer = loop.scheduleTask(in: TimeAmount(duration), work)
        return .init { timer.cancel() }
      } _: { paths in
        self.told.withLock { $0 += paths }
      }
      self.teller.withLock { $0 = teller }
    }

    func tell(_ event: PathEvent) { self.teller.withLock { $0 }?.tell(event) }
    func finish() { self.teller.withLock { $0 }?.finish() }
    func pass(_ time: TimeAmount) { self.loop.advanceTime(by: time) }

    /// The reports since the last look.
    var news: [NetworkPath] {
      self.told.withLock { told in
        defer { told = [] }
        return told
      }
    }
  }

  @Test("C7 connd is away for less than two seconds → no report; for two seconds → one")
  func maxWait() {
    let story = Story()
    story.tell(.path(Self.wifi, interrupted: false))
    #expect(story.news == [Self.wifi])
    story.tell(.lost)
    story.pass(.milliseconds(1_999))
    #expect(story.news == [])
    story.pass(.milliseconds(1))
    #expect(story.news == [.unknown])
    story.pass(.hours(1))
    #expect(story.news == [])
    story.tell(.found)
    #expect(story.news == [])
    story.pass(.milliseconds(100))
    #expect(story.news == [Self.wifi])
    story.pass(.hours(1))
    #expect(story.news == [])
  }

  @Test("C7 the path changed while connd was away → the path before is not reported again")
  func changedInBetween() {
    let story = Story()
    story.tell(.path(Self.wifi, interrupted: false))
    story.tell(.lost)
    story.pass(.seconds(2))
    #expect(story.news == [Self.wifi, .unknown])
    story.tell(.found)
    story.tell(.path(Self.cellular, interrupted: false))
    story.pass(.hours(1))
    #expect(story.news == [Self.cellular])
  }

  @Test("C7 connd is back in time, shown by any message → no report", arguments: [true, false])
  func back(bySpeaking: Bool) {
    let story = Story()
    story.tell(.path(Self.wifi, interrupted: false))
    story.tell(.lost)
    story.pass(.milliseconds(1_999))
    story.tell(bySpeaking ? .path(Self.cellular, interrupted: false) : .found)
    story.pass(.hours(1))
    #expect(!story.news.contains(.unknown))
  }

  @Test("C7 each absence has its own two seconds")
  func again() {
    let story = Story()
    story.tell(.path(Self.wifi, interrupted: false))
    for _ in 0..<3 {
      story.tell(.lost)
      story.pass(.milliseconds(1_999))
      story.tell(.found)
    }
    #expect(!story.news.contains(.unknown))
  }

  @Test("C7 connd is missing at the start → reported immediately; its mere arrival reports nothing")
  func atOnce() {
    let story = Story()
    story.tell(.lost)
    #expect(story.news == [.unknown])
    story.tell(.found)
    story.pass(.hours(1))
    #expect(story.news == [])
    story.tell(.path(Self.wifi, interrupted: false))
    #expect(story.news == [Self.wifi])
  }

  @Test("C7 silence from the start is reported after two seconds")
  func silence() {
    let story = Story()
    story.pass(.milliseconds(1_999))
    #expect(story.news == [])
    story.pass(.milliseconds(1))
    #expect(story.news == [.unknown])
  }

  @Test("T2 an interruption is reported before the present path")
  func interruption() {
    let story = Story()
    story.tell(.path(Self.wifi, interrupted: true))
    #expect(story.news == [.interrupted, Self.wifi])
  }

  @Test("after the end no timer is left")
  func end() {
    let story = Story()
    story.tell(.path(Self.wifi, interrupted: false))
    story.tell(.lost)
    story.finish()
    story.pass(.hours(1))
    #expect(story.news == [Self.wifi])
  }
}

@Suite("Paths from the stream of changes")
struct StatusReaderTests {
  private static let wifi = PathSample.status(PathSample.wifi)
  private static let path = NetworkPath(Self.wifi)

  @Test("each event's meaning for the path")
  func events() {
    var reader = StatusReader()
    #expect(reader.read(.disconnected(.notAvailable("gone"))) == .lost)
    #expect(reader.read(.resumed(after: nil)) == .found)
    #expect(
      reader.read(.snapshot(PathSample.snapshot(1, Self.wifi)))
        == .path(Self.path, interrupted: false))
    #expect(
      reader.read(.change(.path(PathSample.change(2, Self.wifi))))
        == .path(Self.path, interrupted: false))
    let transition = PathSample.transition(3, from: .offline, to: Self.wifi)
    #expect(
      reader.read(.change(.transition(transition))) == .path(Self.path, interrupted: false))
    let bounce = PathSample.transition(4, from: .wifi, to: Self.wifi, bounced: true)
    #expect(reader.read(.change(.transition(bounce))) == .path(Self.path, interrupted: true))
    let invalidation = Invalidation(
      generation: 5, reason: .resumed, severity: .advise, scope: .everything,
      cause: ChangeCause(.sleep, "woke"), time: WallTime(microseconds: 0))
    #expect(reader.read(.change(.invalidation(invalidation))) == nil)
  }

  @Test(
    "T2 a gap that hides a change and its reversal, or a bounce, is an interruption",
    arguments: [
      // Since when, the category after it, whether connd was away, and whether it is an
      // interruption.
      (5, Self.wifi, false, false),
      (6, Self.wifi, false, true),
      // Another category shows by itself.
      (6, PathSample.status(PathSample.cellular), false, false),
      // I7: a restart of connd alone means nothing.
      (6, Self.wifi, true, false),
    ] as [(Int64, ConnectivityStatus, Bool, Bool)])
  func gap(since: Int64, status: ConnectivityStatus, restarted: Bool, interrupted: Bool) {
    var reader = StatusReader()
    _ = reader.read(.snapshot(PathSample.snapshot(1, Self.wifi, since: 5)))
    if restarted { _ = reader.read(.resumed(after: 1)) }
    #expect(
      reader.read(.gap(PathSample.snapshot(9, status, since: since)))
        == .path(NetworkPath(status), interrupted: interrupted))
  }
}
