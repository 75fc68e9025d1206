import Glibc
import Synchronization
import UnixTransport

/// Writes users' choices to their file, on a thread of its own that ends when there is nothing left
/// to write: a slow disk must not hold up the kernel's messages. Of choices that come faster than
/// they may be written, the last are written. Safe to use from any thread.
final class ChoiceKeeper: Sendable {
  /// Stands for choices that were handed over.
  struct Ticket: Sendable {
    fileprivate let keeper: ChoiceKeeper
    fileprivate let revision: UInt64

    /// Whether they outlive connd. Returns when they, or later ones, were written, or could not be.
    func isKept() async -> Bool { await self.keeper.isKept(self.revision) }
  }

  /// How many writes in a row; then there is one a second.
  private static let burst = 8

  private struct State {
    /// Of what was handed over last, of what was written last, and whether that succeeded.
    var (revision, done): (UInt64, UInt64) = (0, 0)
    var isKept = false
    var unwritten: ChoiceFile.Contents?
    var pace = TokenBucket(burst: ChoiceKeeper.burst, interval: .seconds(1))
    var isFinishing = false
    var hasThread = false
    var waiters: [(revision: UInt64, continuation: CheckedContinuation<Bool, Never>)] = []
  }

  private let state = Mutex(State())
  /// Locked while it is written.
  private let file: Mutex<ChoiceFile>

  init(_ file: sending ChoiceFile) { self.file = Mutex(file) }

  /// What an earlier run has kept.
  func load() -> ChoiceFile.Contents { self.file.withLock { $0.load() } }

  /// Has the choices written. Does not wait.
  func keep(_ contents: ChoiceFile.Contents) -> Ticket {
    let (revision, startsThread) = self.state.withLock { state in
      state.revision += 1
      state.unwritten = contents
      defer { state.hasThread = true }
      return (state.revision, !state.hasThread)
    }
    // Without a thread to be had, the caller's does the work.
    if startsThread, !Thread.start(named: "connd-choices", self.writeAll) {
      self.state.withLock { $0.hasThread = false }
      self.write()
    }
    return Ticket(keeper: self, revision: revision)
  }

  /// Writes what is not written yet, on the caller's thread, and does not pause from now on: connd
  /// is about to exit.
  func finish() {
    self.state.withLock { $0.isFinishing = true }
    self.write()
  }

  @Sendable private func writeAll() {
    while let pause = self.pause() {
      usleep(UInt32(max(0, pause / .microseconds(1))))
      self.write()
    }
  }

  /// How long to wait before the next write, or `nil` if there is nothing to write and the thread
  /// ends.
  private func pause() -> Duration? {
    self.state.withLock { state in
      state.hasThread = state.unwritten != nil
      guard state.hasThread else { return nil }
      return state.isFinishing ? .zero : state.pace.delay(at: .now())
    }
  }

  private func write() {
    self.file.withLock { file in
      let next = self.state.withLock { state in
        state.unwritten.take().map { (contents: $0, revision: state.revision) }
      }
      guard let (contents, revision) = next else { return }
      let isWritten = file.holds(contents)
      let isKept = isWritten || file.save(contents)
      let waiters = self.state.withLock { state in
        if !isWritten { _ = state.pace.take(at: .now()) }
        (state.done, state.isKept) = (revision, isKept)
        defer { state.waiters.removeAll { $0.revision <= revision } }
        return state.waiters.filter { $0.revision <= revision }
      }
      for waiter in waiters { waiter.continuation.resume(returning: isKept) }
    }
  }

  private func isKept(_ revision: UInt64) async -> Bool {
    await withCheckedContinuation { continuation in
      let isKept = self.state.withLock { state -> Bool? in
        if state.done >= revision { return state.isKept }
        state.waiters.append((revision, continuation))
        return nil
      }
      if let isKept { continuation.resume(returning: isKept) }
    }
  }
}
