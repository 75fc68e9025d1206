import Glibc
import LinuxSupport
import Synchronization

/// Writes users' overrides to their file, on a separate thread: a slow disk must not delay kernel
/// messages. The thread ends when everything is written. If overrides change faster than they may
/// be written, only the last state is written. Safe to use from any thread.
final class OverrideStore: Sendable {
  /// A receipt for overrides that were passed to ``OverrideStore/keep(_:)``.
  struct Ticket: Sendable {
    fileprivate let keeper: OverrideStore
    fileprivate let revision: UInt64

    /// Returns whether the overrides outlive connd, as soon as the attempt to write them or later
    /// overrides has ended.
    func isKept() async -> Bool { await self.keeper.isKept(self.revision) }
  }

  /// The maximum number of writes in a burst. Further writes are limited to one per second.
  private static let burst = 8

  private struct State {
    /// The last revision handed over, the last revision written, and whether that succeeded.
    var (revision, done): (UInt64, UInt64) = (0, 0)
    var isKept = false
    var unwritten: OverrideFile.Contents?
    var pace = TokenBucket(burst: OverrideStore.burst, interval: .seconds(1))
    var isFinishing = false
    var hasThread = false
    var waiters: [(revision: UInt64, continuation: CheckedContinuation<Bool, Never>)] = []
  }

  private let state = Mutex(State())
  /// Locked while the file is written.
  private let file: Mutex<OverrideFile>

  init(_ file: sending OverrideFile) { self.file = Mutex(file) }

  /// Returns what an earlier run has stored.
  func load() -> OverrideFile.Contents { self.file.withLock { $0.load() } }

  /// Takes overrides for writing. Does not block, unless no thread can be created.
  func keep(_ contents: OverrideFile.Contents) -> Ticket {
    let (revision, startsThread) = self.state.withLock { state in
      state.revision += 1
      state.unwritten = contents
      defer { state.hasThread = true }
      return (state.revision, !state.hasThread)
    }
    // If no thread can be created, the caller's thread does the work.
    if startsThread, !Thread.start(named: "connd-overrides", self.writeAll) {
      self.state.withLock { $0.hasThread = false }
      self.write()
    }
    return Ticket(keeper: self, revision: revision)
  }

  /// Writes the pending overrides on the caller's thread, and disables pauses because connd is
  /// about to exit.
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

  /// Returns how long to wait before the next write, or `nil` if there is nothing to write and the
  /// thread ends.
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
