import Connectivity
import Logging
import NIOCore
import Synchronization

/// Admits clients and their calls as far as the limits go, and logs whom it turns away. Safe to use from any thread.
final class Doorkeeper: Sendable {
  /// What is admitted; the raw value is the limit's key.
  enum Kind: String, CaseIterable {
    case connections, streams
  }

  /// Why somebody is turned away.
  struct Refusal: Error {
    /// The key of the limit.
    var limit: String
    /// For the client.
    var message: String
  }

  fileprivate struct State {
    var quotas: [Kind: Quota] = [:]
    var throttles: [String: LogThrottle] = [:]
    /// Why connections cannot be accepted at present.
    var acceptError: String?
  }

  private let state = Mutex(State())
  private let statistics: Statistics
  private let logger: Logger

  init(_ limits: Limits, statistics: Statistics, logger: Logger) {
    self.statistics = statistics
    self.logger = logger
    self.configure(limits)
  }

  /// Takes other limits. Who is there already may stay.
  func configure(_ limits: Limits) {
    // The last descriptors are for reading sysfs and writing the history: for want of them connd would be wrong.
    let connections = min(limits.connections, ProcessLimits.descriptorsForClients)
    if connections < limits.connections {
      self.logger.notice(
        "the limit of descriptors admits fewer connections than limits.connections (RLIMIT_NOFILE)",
        metadata: ["limit": "\(limits.connections)", "admitted": "\(connections)"])
    }
    self.state.withLock { state in
      state.setQuota(.connections, connections, limits.connectionsPerUser)
      state.setQuota(.streams, limits.streams, limits.streamsPerUser)
    }
  }

  /// Admits one more, until `release`.
  func admit(_ kind: Kind, _ peer: PeerCredentials) throws(Refusal) {
    do throws(Quota.Refusal) {
      try self.state.withLock { (state) throws(Quota.Refusal) in
        try state.quotas[kind]?.admit(peer.uid)
      }
    } catch {
      let refusal = Refusal(kind, error, peer)
      self.turnedAway(peer, limit: refusal.limit)
      throw refusal
    }
  }

  func release(_ kind: Kind, _ peer: PeerCredentials) {
    self.state.withLock { $0.quotas[kind]?.release(peer.uid) }
  }

  /// Something of a client's exceeded a limit, which it was told.
  func turnedAway(_ peer: PeerCredentials, limit: String) {
    self.statistics.hit(limit)
    self.log(limit, "a client has exceeded limits.\(limit)") {
      ["uid": "\(peer.uid)", "pid": "\(peer.pid)"]
    }
  }

  /// The kernel gives no connection: descriptors or memory have run out. They wait until it does.
  func acceptFailed(_ error: any Error) {
    let text = (error as? IOError).map { "\(SystemError($0.errnoCode))" } ?? "\(error)"
    self.state.withLock { $0.acceptError = text }
    self.statistics.hit("descriptors")
    self.log("descriptors", "no connection can be accepted; clients wait") { ["error": "\(text)"] }
  }

  /// A connection was accepted.
  func accepted() {
    let error = self.state.withLock { state in
      defer { state.acceptError = nil }
      return state.acceptError
    }
    if error != nil { self.logger.notice("connections are accepted again") }
  }

  private func log(
    _ subject: String, _ message: Logger.Message, _ metadata: () -> Logger.Metadata
  ) {
    let suppressed = self.state.withLock {
      $0.throttles[subject, default: LogThrottle()].next(at: .now())
    }
    guard let suppressed else { return }
    var metadata = metadata()
    if suppressed > 0 { metadata["suppressed"] = "\(suppressed)" }
    self.logger.warning(message, metadata: metadata)
  }
}

extension Doorkeeper.State {
  fileprivate mutating func setQuota(_ kind: Doorkeeper.Kind, _ inAll: Int, _ ofOneUser: Int) {
    self.quotas[kind, default: Quota(inAll: 0, ofOneUser: 0)].inAll = inAll
    self.quotas[kind]?.ofOneUser = ofOneUser
  }
}

extension Doorkeeper.Refusal {
  fileprivate init(_ kind: Doorkeeper.Kind, _ refusal: Quota.Refusal, _ peer: PeerCredentials) {
    switch refusal {
    case .inAll(let most):
      self.limit = kind.rawValue
      self.message = "connd admits at most \(most) \(kind) (limits.\(self.limit))"
    case .ofOneUser(let most):
      self.limit = "\(kind.rawValue)PerUser"
      self.message =
        "connd admits at most \(most) \(kind) of a user, here uid \(peer.uid) (limits.\(self.limit))"
    }
  }
}
