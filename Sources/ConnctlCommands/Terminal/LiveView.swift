import CLinux
import Glibc
import Synchronization
import UnixTransport

/// A picture on the terminal that standard output is, until the user has seen enough.
///
/// A thread of its own waits for keys, signals and the next reading, and is the only one that writes. The terminal is the user's
/// again however it ends, but for SIGKILL. Stopped, it does nothing; in the background the kernel stops it (SIGTTOU).
final class LiveView: Sendable {
  /// Gives the picture.
  private let picture: @Sendable (Frame.Size) -> Frame
  /// Reads what nobody tells; told whether what was read before is of no use, for nobody has looked meanwhile.
  private let read: @Sendable (_ isFresh: Bool) -> Void
  private let color: Bool
  private let bell: CInt
  private let isOver = Atomic(false)
  private let readsSoon = Atomic(false)

  /// - Throws: where there are no more descriptors to be had.
  init(
    color: Bool, picture: @escaping @Sendable (Frame.Size) -> Frame,
    read: @escaping @Sendable (_ isFresh: Bool) -> Void
  ) throws(SystemError) {
    (self.color, self.picture, self.read) = (color, picture, read)
    self.bell = eventfd(0, CInt(EFD_CLOEXEC) | CInt(EFD_NONBLOCK))
    guard self.bell >= 0 else { throw SystemError() }
  }

  deinit { close(self.bell) }

  /// Has it drawn anew: there is something to be seen. Safe to use from any thread.
  func refresh() { eventfd_write(self.bell, 1) }

  /// Has it read soon, and drawn anew. Safe to use from any thread.
  func readSoon() {
    self.readsSoon.store(true, ordering: .relaxed)
    self.refresh()
  }

  /// Shows it. Returns when the user has quit, or when the task is cancelled; to be called once.
  func run() async throws {
    try await withTaskCancellationHandler {
      let result: Result<Void, any Error> = await withCheckedContinuation { continuation in
        let isStarted = Thread.start(named: "connctl-terminal") {
          continuation.resume(returning: Result { try self.show() })
        }
        if !isStarted { continuation.resume(returning: .failure(SystemError())) }
      }
      try result.get()
    } onCancel: {
      self.isOver.store(true, ordering: .relaxed)
      self.refresh()
    }
  }

  private static let ending = [SIGINT, SIGTERM, SIGHUP, SIGQUIT]

  /// What the thread does.
  private func show() throws {
    let signals = try SignalPipe(Self.ending + [SIGTSTP, SIGCONT, SIGWINCH])
    var terminal = try Terminal()
    defer { terminal.leave() }
    var schedule = ViewSchedule(at: .now)
    var shown: Frame?
    var (hasKeys, isFresh) = (terminal.hasKeys, true)
    while !self.isOver.load(ordering: .relaxed) {
      // Before all else: somebody else may have the terminal.
      while let signal = signals.next() {
        switch signal {
        case SIGWINCH: schedule.restart(at: .now)
        case SIGTSTP:
          terminal.leave()
          kill(getpid(), SIGSTOP)
        case SIGCONT:
          // Whoever had the terminal meanwhile has left something on it.
          try terminal.enter()
          (shown, isFresh) = (nil, true)
          schedule.restart(at: .now)
        default:
          terminal.leave()
          Self.end(by: signal)
        }
      }
      guard terminal.isEntered else {
        if Self.wait([signals.descriptor, self.bell], nil).contains(self.bell) { self.takeBell() }
        continue
      }
      let step = schedule.step(at: .now)
      if step.reads {
        self.read(isFresh)
        isFresh = false
      }
      if step.draws {
        let frame = self.picture(terminal.size)
        let update = frame.update(from: shown, color: self.color)
        if !update.isEmpty { try terminal.write(update) }
        // What the user has done himself, another size of the window, is not held against him.
        schedule.drew(shown?.size == frame.size ? update.utf8.count : 0, at: .now)
        shown = frame
        continue
      }
      let ready = Self.wait(
        [signals.descriptor, self.bell, hasKeys ? STDIN_FILENO : -1], step.pause)
      if ready.contains(self.bell) {
        self.takeBell()
        schedule.changed()
        if self.readsSoon.exchange(false, ordering: .relaxed) { schedule.readSoon(at: .now) }
      }
      if ready.contains(STDIN_FILENO) {
        switch terminal.key() {
        case .quit: return
        case .redraw:
          shown = nil
          schedule.restart(at: .now)
        case .none: break
        case .ended: hasKeys = false
        }
      }
    }
  }

  private func takeBell() {
    var count: eventfd_t = 0
    eventfd_read(self.bell, &count)
  }

  /// Those that can be read.
  ///
  /// - Parameter pause: `nil`: until there is one.
  private static func wait(_ descriptors: [CInt], _ pause: Duration?) -> [CInt] {
    var polled = descriptors.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
    let milliseconds = pause.map { CInt(clamping: Int(($0 / .milliseconds(1)).rounded(.up))) } ?? -1
    guard poll(&polled, nfds_t(polled.count), milliseconds) > 0 else { return [] }
    return polled.filter { $0.revents != 0 }.map(\.fd)
  }

  /// Ends the process as the signal would have, so that whoever waits for it is told so.
  private static func end(by signal: CInt) -> Never {
    Glibc.signal(signal, SIG_DFL)
    kill(getpid(), signal)
    _exit(128 + signal)
  }
}
