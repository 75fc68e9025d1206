import GRPCCore
import Synchronization
import Systemd
import UnixTransport

/// Asks polkit, each time on a thread of its own that ends with the answer: it may be away, hang or start slowly, and neither the
/// kernel nor another caller waits for that.
final class PolkitDesk: Sendable {
  /// So long polkit has, which the bus may have to start first; less than connctl waits for connd.
  private static let longest = Duration.seconds(4)
  /// So many questions at once, of all and of one user: a thread each.
  private static let most = 16
  private static let mostOfOne = 2

  private let ask: @Sendable (PeerCredentials) -> Bool?
  /// The users whose questions are under way.
  private let users = Mutex<[UInt32]>([])

  /// - Parameter ask: What asks, and may take its time.
  init(ask: @escaping @Sendable (PeerCredentials) -> Bool?) { self.ask = ask }

  convenience init(action: String) {
    self.init { peer in
      Polkit.allows(action, process: peer.pid, user: peer.uid, within: Self.longest)
    }
  }

  /// - Returns: `nil` where polkit says nothing.
  /// - Throws: RESOURCE_EXHAUSTED, where too many are asked already.
  func answer(of peer: PeerCredentials) async throws(RPCError) -> Bool? {
    let isTaken = self.users.withLock { users in
      let isFree =
        users.count < Self.most && users.count(where: { $0 == peer.uid }) < Self.mostOfOne
      if isFree { users.append(peer.uid) }
      return isFree
    }
    guard isTaken else {
      throw RPCError(code: .resourceExhausted, message: "polkit is being asked too much already")
    }
    defer {
      self.users.withLock { users in
        if let place = users.firstIndex(of: peer.uid) { users.remove(at: place) }
      }
    }
    return await withCheckedContinuation { continuation in
      let isStarted = Thread.start(named: "connd-polkit") {
        continuation.resume(returning: self.ask(peer))
      }
      if !isStarted { continuation.resume(returning: nil) }
    }
  }
}
