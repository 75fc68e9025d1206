import GRPCCore
import LinuxSupport
import Synchronization
import Systemd
import UnixTransport

/// Queries polkit, each time on a separate thread that ends with the answer. polkit may be absent,
/// hang or start slowly, and must not delay kernel messages or other callers.
final class PolkitClient: Sendable {
  /// The time limit for polkit, which the bus may have to start first. It is less than connctl
  /// waits for connd.
  private static let maxWait = Duration.seconds(4)
  /// The maximum number of concurrent queries, each on a thread. Users that connd's own rule would
  /// allow and all others are counted separately. The second limit is per user.
  static let maxQuestions = 8
  static let maxQuestionsPerUser = 2

  private let ask: @Sendable (PeerCredentials) -> Polkit.Verdict
  /// The callers with pending queries. Users at the seat or in the group do not compete with
  /// the others, because there may be many others.
  private let callers = Mutex<[Caller]>([])

  private struct Caller: Equatable {
    var account: Account
    var isLikely: Bool
  }

  /// - Parameter ask: Queries polkit. May block.
  init(ask: @escaping @Sendable (PeerCredentials) -> Polkit.Verdict) { self.ask = ask }

  convenience init(action: String) {
    self.init { peer in
      Polkit.verdict(on: action, process: peer.pid, user: peer.uid, within: Self.maxWait)
    }
  }

  /// - Parameter isLikely: Whether connd's own rule would allow the caller.
  /// - Throws: RESOURCE_EXHAUSTED if too many queries are pending.
  func verdict(
    on peer: PeerCredentials, isLikely: Bool
  ) async throws(RPCError) -> Polkit.Verdict {
    let caller = Caller(account: peer.account, isLikely: isLikely)
    guard self.callers.withLock({ Self.admit(caller, to: &$0) }) else {
      throw RPCError(
        code: .resourceExhausted,
        message: "too many pending polkit queries: try again in a moment")
    }
    defer {
      self.callers.withLock { callers in
        if let place = callers.firstIndex(of: caller) { callers.remove(at: place) }
      }
    }
    return await withCheckedContinuation { continuation in
      let isStarted = Thread.start(named: "connd-polkit") {
        continuation.resume(returning: self.ask(peer))
      }
      if !isStarted {
        continuation.resume(returning: .unavailable("connd cannot start a thread for polkit"))
      }
    }
  }

  private static func admit(_ caller: Caller, to callers: inout [Caller]) -> Bool {
    guard callers.count(where: { $0.isLikely == caller.isLikely }) < Self.maxQuestions,
      callers.count(where: { $0.account == caller.account }) < Self.maxQuestionsPerUser
    else { return false }
    callers.append(caller)
    return true
  }
}
