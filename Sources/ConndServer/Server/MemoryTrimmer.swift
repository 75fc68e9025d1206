import CLinux
import Connectivity
import Invariants
import Synchronization
import UnixTransport

/// Returns memory to the system after clients have disconnected. malloc keeps freed memory, so an
/// attack would remain visible in the unit's memory forever. Safe to use from any thread.
///
/// It has no periodic timer. If clients have freed much memory, one trim follows a moment later.
final class MemoryTrimmer: Sendable {
  /// Estimates of the memory that clients use, in bytes.
  static let costOfConnection = 16 << 10
  static let costOfStream = 32 << 10
  static let costOfFlow = 2 << 10

  private let policy = Mutex(TrimPolicy())
  private let reactor: Reactor

  init(on reactor: Reactor) {
    self.reactor = reactor
  }

  /// Frees the pages that connd used only during its start: two thirds of its resident memory.
  func started() {
    self.reactor.execute {
      self.reactor.execute(after: TrimPolicy.delay) {
        clinux_trim_memory()
        clinux_drop_program_pages()
      }
    }
  }

  func use(_ bytes: Int) { self.policy.withLock { $0.use(bytes) } }

  func free(_ bytes: Int) {
    let delay = self.policy.withLock { $0.free(bytes, at: .now()) }
    guard let delay else { return }
    self.reactor.execute {
      self.reactor.execute(after: delay) {
        self.policy.withLock { $0.trimmed(at: .now()) }
        clinux_trim_memory()
      }
    }
  }
}

/// Decides when to return memory. A value without I/O.
struct TrimPolicy {
  /// The minimum amount of freed memory that is worth a trim, in bytes.
  static let threshold = 8 << 20
  /// The delay before a trim, because clients often leave at the same time.
  static let delay = Duration.seconds(1)
  /// The minimum interval between trims, however often clients come and go. malloc blocks during a
  /// trim.
  static let interval = Duration.seconds(10)

  private var used = 0
  /// The maximum of `used` since the last trim.
  private var peak = 0
  private var isScheduled = false
  private var last: Instant?

  mutating func use(_ bytes: Int) {
    self.used += bytes
    self.peak = max(self.peak, self.used)
  }

  /// - Returns: The delay before the trim, or `nil` if none is needed or one is already scheduled.
  mutating func free(_ bytes: Int, at now: Instant) -> Duration? {
    invariant(bytes <= self.used, "only memory that was used is freed")
    self.used -= bytes
    guard !self.isScheduled, self.peak - self.used >= Self.threshold, self.used <= self.peak / 2
    else { return nil }
    self.isScheduled = true
    let earliest = self.last.map { now.duration(to: $0.advanced(by: Self.interval)) } ?? .zero
    return max(Self.delay, earliest)
  }

  mutating func trimmed(at now: Instant) {
    (self.peak, self.isScheduled, self.last) = (self.used, false, now)
  }
}
