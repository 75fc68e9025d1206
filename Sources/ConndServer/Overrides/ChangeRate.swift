import Connectivity
import GRPCCore
import LinuxSupport
import Synchronization
import UnixTransport

/// Limits how often each ``Account`` sets costs, or reports attempts to connect. Every change may
/// be an event for all subscribers, an entry in the short history, and lines in the log. Safe to
/// use from any thread.
final class ChangeRate: Sendable {
  private static let burst = 16
  private static let interval = Duration.milliseconds(250)

  private struct State {
    var buckets: [Account: TokenBucket] = [:]
    /// The number of accounts above which accounts with a full bucket are forgotten.
    var maxBuckets = 256
  }

  private let state = Mutex(State())

  /// Counts one action of a person.
  ///
  /// - Returns: Whether the person has not exceeded the rate.
  func take(of peer: PeerCredentials, at now: Instant = .now()) -> Bool {
    self.state.withLock { state in
      if state.buckets.count > state.maxBuckets {
        state.buckets = state.buckets.filter { !$0.value.isFull(at: now) }
        state.maxBuckets = max(256, 2 * state.buckets.count)
      }
      let new = TokenBucket(burst: Self.burst, interval: Self.interval)
      return state.buckets[peer.account, default: new].take(at: now)
    }
  }

  /// - Throws: RESOURCE_EXHAUSTED if the account sets costs too often.
  func admit(_ peer: PeerCredentials, at now: Instant = .now()) throws(RPCError) {
    guard !self.take(of: peer, at: now) else { return }
    throw RPCError(
      code: .resourceExhausted,
      message:
        "uid \(peer.uid) sets costs too often: at most \(Self.burst) times in a row, then 4 times a second; try again in a moment"
    )
  }
}
