import Connectivity

/// Bounds how often everything is read anew because messages were lost. The first time it is done at once; where they go on
/// being lost, the next ones wait a little: they would only be lost as well, and connd would do nothing else.
struct OverrunPause {
  /// When messages were lost last.
  private var last: Instant?
  /// Until when the kernel's messages wait.
  private(set) var end: Instant?

  private static let length = Duration.milliseconds(20)

  /// Everything was read anew.
  ///
  /// - Returns: whether to let what comes next wait.
  mutating func begins(at now: Instant) -> Bool {
    defer { self.last = now }
    guard let last, last.duration(to: now) < Self.length else { return false }
    self.end = now.advanced(by: Self.length)
    return true
  }

  /// - Returns: whether it is over just now.
  mutating func ends(by now: Instant) -> Bool {
    guard let end, end <= now else { return false }
    self.end = nil
    return true
  }
}

/// Gives those who are told of a change the processors for a moment, before a look at very many flows takes one of them. Where
/// there are two, the other is the event loop's, and a subscriber would wait until that has told everybody.
struct SweepDelay {
  /// When the moment is over.
  private(set) var end: Instant?

  private static let length = Duration.milliseconds(1)
  /// So that changes without end do not keep flows from being looked at.
  private static let interval = Duration.milliseconds(20)

  mutating func begin(at now: Instant) {
    if let end, end.duration(to: now) < Self.interval { return }
    self.end = now.advanced(by: Self.length)
  }

  func isOver(at now: Instant) -> Bool { self.end.map { $0 <= now } ?? true }
}

/// When to ask again what the kernel has refused to answer: soon, and then ever more rarely as long as it goes on refusing.
/// Whatever happens meanwhile has the kernel asked anyway.
struct Repetition {
  private(set) var due: Instant?
  private var pause = Self.shortest
  /// When the last one was due.
  private var last: Instant?

  private static let shortest = Duration.milliseconds(50)
  private static let longest = Duration.seconds(60)

  /// A question was refused.
  mutating func refused(at now: Instant) {
    guard self.due == nil else { return }
    // All was answered for longer than that.
    if let last, last.duration(to: now) > self.pause { self.pause = Self.shortest }
    self.due = now.advanced(by: self.pause)
    self.pause = min(self.pause * 2, Self.longest)
  }

  /// - Returns: whether to ask again now.
  mutating func begins(at now: Instant) -> Bool {
    guard let due, due <= now else { return false }
    (self.due, self.last) = (nil, now)
    return true
  }
}

/// When to try again to open the kernel: after a second, and then ever more rarely.
struct Reopening {
  var due: Instant?
  private var pause = Duration.seconds(1)

  mutating func failed(at now: Instant) {
    self.due = now.advanced(by: self.pause)
    self.pause = min(self.pause * 2, .seconds(60))
  }

  mutating func succeeded() {
    self = Reopening()
  }
}
