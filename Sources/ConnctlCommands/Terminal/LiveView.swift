import CLinux
import Glibc
import LinuxSupport
import Synchronization
import UnixTransport

/// A picture on the terminal at standard output, until the user quits.
///
/// A separate thread waits for keys, signals and the next reading. Only that thread writes to the
/// terminal. The terminal is restored however the view ends, except after SIGKILL. A stopped view
/// does nothing. In the background, the kernel stops the view (SIGTTOU).
final class LiveView: Sendable {
  /// Returns the picture.
  private let picture: @Sendable (Frame.Size, ViewOptions) -> Frame
  /// Reads data that is not pushed. `isFresh` means that earlier readings are outdated, because
  /// nothing was shown for a while.
  private let read: @Sendable (_ isFresh: Bool) -> Void
  private let color: Bool
  private let bell: CInt
  private let isOver = Atomic(false)
  private let readsSoon = Atomic(false)

  /// - Throws: An error if no descriptors are left.
  init(
    color: Bool, picture: @escaping @Sendable (Frame.Size, ViewOptions) -> Frame,
    read: @escaping @Sendable (_ isFresh: Bool) -> Void
  ) throws(SystemError) {
    (self.color, self.picture, self.read) = (color, picture, read)
    self.bell = eventfd(0, CInt(EFD_CLOEXEC) | CInt(EFD_NONBLOCK))
    guard self.bell >= 0 else { throw SystemError() }
  }

  deinit { close(self.bell) }

  /// Redraws the picture. Safe to use from any thread.
  func refresh() { eventfd_write(self.bell, 1) }

  /// Reads soon, and redraws the picture. Safe to use from any thread.
  func readSoon() {
    self.readsSoon.store(true, ordering: .relaxed)
    self.refresh()
  }

  /// Shows the view. Returns when the user has quit or the task is cancelled. Must be called only
  /// once.
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

  /// Runs on the separate thread.
  private func show() throws {
    let signals = try SignalPipe(Self.ending + [SIGTSTP, SIGCONT, SIGWINCH])
    var terminal = try Terminal()
    defer { terminal.leave() }
    var schedule = ViewSchedule(at: .now)
    var shown: Frame?
    var (hasKeys, isFresh) = (terminal.hasKeys, true)
    var options = ViewOptions()
    while !self.isOver.load(ordering: .relaxed) {
      // Handle signals first, because another process may have the terminal.
      while let signal = signals.next() {
        switch signal {
        case SIGWINCH: schedule.restart(at: .now)
        case SIGTSTP:
          terminal.leave()
          kill(getpid(), SIGSTOP)
        case SIGCONT:
          // Another process has used the terminal in the meantime.
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
        let frame = self.picture(terminal.size, options)
        let update = frame.update(from: shown, color: self.color)
        if !update.isEmpty { try terminal.write(update) }
        // A complete redraw, such as after a resize or Ctrl-L, does not count against the budget.
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
        guard let typed = terminal.keys() else {
          hasKeys = false
          continue
        }
        switch options.take(typed) {
        case .quit: return
        case .redraw:
          shown = nil
          schedule.restart(at: .now)
        case .changed: schedule.changed()
        case .nothing: break
        }
      }
    }
  }

  private func takeBell() {
    var count: eventfd_t = 0
    eventfd_read(self.bell, &count)
  }

  /// Waits until a descriptor is readable, and returns the readable descriptors.
  ///
  /// - Parameter pause: How long to wait, or `nil` to wait without limit.
  private static func wait(_ descriptors: [CInt], _ pause: Duration?) -> [CInt] {
    var polled = descriptors.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
    let milliseconds = pause.map { CInt(clamping: Int(($0 / .milliseconds(1)).rounded(.up))) } ?? -1
    guard poll(&polled, nfds_t(polled.count), milliseconds) > 0 else { return [] }
    return polled.filter { $0.revents != 0 }.map(\.fd)
  }

  /// Ends the process by the signal itself, so that the parent sees the signal.
  private static func end(by signal: CInt) -> Never {
    Glibc.signal(signal, SIG_DFL)
    kill(getpid(), signal)
    _exit(128 + signal)
  }
}
