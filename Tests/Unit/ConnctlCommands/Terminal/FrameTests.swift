import ConnectivityProtocol
import TestKit
import TestTraits
import Testing

@testable import ConnctlCommands

/// Output to a terminal that already shows something.
@Suite("Frames")
struct FrameTests {
  private static let size = Frame.Size(columns: 24, rows: 5)

  private static func frame(_ lines: String..., size: Frame.Size = Self.size) -> Frame {
    Frame(lines.map { $0.line() }, size: size)
  }

  @Test("an unchanged frame writes nothing")
  func unchanged() {
    let frame = Self.frame("eth0  1.2 kB/s", "wlan0")
    #expect(frame.update(from: frame, color: true) == "")
  }

  @Test("only differences are written, in place")
  func differences() {
    let old = Self.frame("eth0    1.2 kB/s", "wlan0")
    #expect(
      Self.frame("eth0    1.3 kB/s", "wlan0").update(from: old, color: false) == "\u{1B}[1;11H3")
    #expect(Self.frame("eth0    1.2 kB/s").update(from: old, color: false) == "\u{1B}[2;1H\u{1B}[K")
  }

  @Test("a window of another size is written completely")
  func resized() {
    let frame = Self.frame("a")
    let other = Frame.Size(columns: 23, rows: 5)
    #expect(
      frame.update(from: Self.frame("a", size: other), color: false)
        == "\u{1B}[H\u{1B}[2J\u{1B}[1;1Ha")
  }

  @Test("escape codes appear only where the colour changes, and the update ends without colour")
  func color() {
    var line = Line(.unicode)
    line.append("up", .good)
    line.append(" 1")
    let frame = Frame([line], size: Self.size)
    #expect(
      frame.update(from: nil, color: true)
        == "\u{1B}[H\u{1B}[2J\u{1B}[1;1H\u{1B}[0;32mup\u{1B}[0m 1")
    #expect(frame.update(from: nil, color: false) == "\u{1B}[H\u{1B}[2J\u{1B}[1;1Hup 1")
    // A different colour alone is a difference.
    let plain = Self.frame("up 1")
    #expect(frame.update(from: plain, color: true) == "\u{1B}[1;1H\u{1B}[0;32mup\u{1B}[0m")
  }

  @Test(
    "any frame after any other shows the same as alone",
    arguments: 1...40 as ClosedRange<UInt64>)
  func anyPair(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    let pieces = ["a", "b", " ", "    ", "愛", "é", "e\u{301}", "😀", "ก\u{E48}", "─"]
    func frame() -> Frame {
      let lines = (0..<Int.random(in: 0...6, using: &random)).map { _ in
        var line = Line(.unicode)
        for _ in 0..<Int.random(in: 0...20, using: &random) {
          let ink: TextStyle? = Bool.random(using: &random) ? .good : nil
          line.append(pieces.randomElement(using: &random) ?? "", ink)
        }
        return line
      }
      return Frame(lines, size: Self.size)
    }
    var shown = frame()
    var terminal = FakeTerminal.showing(shown)
    for _ in 0..<50 {
      let next = frame()
      terminal.take(next.update(from: shown, color: true))
      #expect(terminal.rows == FakeTerminal.showing(next).rows)
      #expect(terminal.unknown == [])
      shown = next
    }
  }

  // MARK: - Amount of output

  /// The bytes of an hour in which all links' rates change with every reading.
  private static func hour(_ size: Frame.Size, links: Int) -> Int {
    var random = SeededGenerator(seed: 7)
    var overview = Overview.sample
    overview.links = (0..<links).map { .stacked("eth\($0)") }
    var counters: [String: Rates.Octets] = [:]
    let start = ContinuousClock.now
    var schedule = ViewSchedule(at: start)
    var (now, shown, bytes) = (start, Frame?.none, 0)
    while now < start.advanced(by: .seconds(3600)) {
      let step = schedule.step(at: now)
      if step.reads {
        for link in overview.links {
          var octets = counters[link.name] ?? .init(received: 0, sent: 0)
          octets.received += UInt64.random(in: 0...9_999_999_999, using: &random)
          octets.sent += UInt64.random(in: 0...9_999_999, using: &random)
          counters[link.name] = octets
        }
        overview.rates.take(counters, at: now)
      }
      if step.draws {
        let seconds = Int64(start.duration(to: now) / .seconds(1))
        let frame = overview.frame(
          size, .unicode, .plain(width: size.columns, color: true),
          now: .sample.adding(seconds: seconds))
        let update = frame.update(from: shown, color: true)
        bytes += update.utf8.count
        schedule.drew(update.utf8.count, at: now)
        shown = frame
        continue
      }
      now = now.advanced(by: max(.milliseconds(1), step.pause))
    }
    return bytes
  }

  @Test(
    "an hour of changing rates takes less than a megabyte, and much less at the usual size",
    .blocking, arguments: [(80, 24, 6, 500_000), (132, 50, 40, 1_000_000)])
  func hour(columns: Int, rows: Int, links: Int, most: Int) {
    let bytes = Self.hour(Frame.Size(columns: columns, rows: rows), links: links)
    // All of it was drawn, and changed.
    #expect(bytes > 50_000)
    #expect(bytes < most)
  }

  @Test("any content takes at most a megabyte and one frame per hour")
  func flood() {
    let start = ContinuousClock.now
    var schedule = ViewSchedule(at: start)
    var (now, bytes, frames) = (start, 0, 0)
    while now < start.advanced(by: .seconds(3600)) {
      schedule.changed()
      let step = schedule.step(at: now)
      if step.draws {
        bytes += 30_000
        frames += 1
        schedule.drew(30_000, at: now)
      }
      now = now.advanced(by: max(.milliseconds(1), min(.milliseconds(250), step.pause)))
    }
    #expect(bytes <= 1_030_000)
    #expect(frames > 20)
  }
}

@Suite("Schedule of a view")
struct ViewScheduleTests {
  private let start = ContinuousClock.now

  @Test("it reads every two seconds, and draws if something may have changed")
  func period() {
    var schedule = ViewSchedule(at: self.start)
    #expect(schedule.step(at: self.start) == .init(reads: true, draws: true, pause: .seconds(2)))
    schedule.drew(100, at: self.start)
    let later = self.start.advanced(by: .seconds(1))
    #expect(schedule.step(at: later) == .init(reads: false, draws: false, pause: .seconds(1)))
    schedule.changed()
    #expect(schedule.step(at: later) == .init(reads: false, draws: true, pause: .seconds(1)))
  }

  @Test("changes in quick succession are one frame")
  func burst() {
    var schedule = ViewSchedule(at: self.start)
    _ = schedule.step(at: self.start)
    schedule.drew(100, at: self.start)
    schedule.changed()
    let soon = self.start.advanced(by: .milliseconds(40))
    #expect(schedule.step(at: soon) == .init(reads: false, draws: false, pause: .milliseconds(60)))
    let then = self.start.advanced(by: .milliseconds(100))
    #expect(schedule.step(at: then).draws)
  }

  @Test("a report causes an early reading, at most twice a second")
  func news() {
    var schedule = ViewSchedule(at: self.start)
    _ = schedule.step(at: self.start)
    schedule.drew(100, at: self.start)
    let soon = self.start.advanced(by: .milliseconds(200))
    schedule.readSoon(at: soon)
    #expect(schedule.step(at: soon) == .init(reads: false, draws: false, pause: .milliseconds(300)))
    #expect(schedule.step(at: self.start.advanced(by: .milliseconds(500))).reads)
    let later = self.start.advanced(by: .milliseconds(1700))
    schedule.readSoon(at: later)
    #expect(schedule.step(at: later).reads)
  }

  @Test("a resized window is redrawn immediately, however much was written before")
  func restart() {
    var schedule = ViewSchedule(at: self.start)
    _ = schedule.step(at: self.start)
    schedule.drew(1_000_000, at: self.start)
    let later = self.start.advanced(by: .seconds(10))
    #expect(!schedule.step(at: later).draws)
    schedule.restart(at: later)
    #expect(schedule.step(at: later).draws)
  }
}
