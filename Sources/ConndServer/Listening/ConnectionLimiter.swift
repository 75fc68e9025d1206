import Connectivity
import GRPCCore
import Logging
import Synchronization
import UnixTransport

/// Admits clients and their calls as far as the limits go, and logs whom it turns away. Safe to use from any thread.
final class ConnectionLimiter: Admission {
  /// What is admitted; the raw value is the limit's key.
  private enum Kind: String {
    case connections, streams, questions
  }

  private struct State {
    var quotas: [Kind: Quota] = [:]
    var throttles: [String: LogThrottle] = [:]
    /// Why connections cannot be accepted at present.
    var acceptError: SystemError?

    mutating func setQuota(_ kind: Kind, _ inAll: Int, _ ofOneUser: Int) {
      self.quotas[kind, default: Quota(inAll: 0, ofOneUser: 0)].inAll = inAll
      self.quotas[kind]?.ofOneUser = ofOneUser
    }
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
    let connections = min(limits.connections, ProcessLimits.maxClients)
    if connections < limits.connections {
      self.logger.notice(
        "the limit of descriptors admits fewer connections than limits.connections (RLIMIT_NOFILE)",
        metadata: ["limit": "\(limits.connections)", "admitted": "\(connections)"])
    }
    self.state.withLock { state in
      state.setQuota(.connections, connections, limits.connectionsPerUser)
      state.setQuota(.streams, limits.streams, limits.streamsPerUser)
      state.setQuota(.questions, limits.questions, limits.questionsPerUser)
    }
  }

  func admitConnection(of peer: PeerCredentials) throws(Refusal) {
    try self.admit(.connections, peer)
  }

  func releaseConnection(of peer: PeerCredentials) { self.release(.connections, peer) }

  func connectionFailed(of peer: PeerCredentials, _ error: UInt32) {
    self.statistics.hit("floods")
    self.log("floods", "a client's connection is closed: it floods, or is no HTTP/2") {
      ["uid": "\(peer.uid)", "pid": "\(peer.pid)", "error": "\(error)"]
    }
  }

  func admitStream(of peer: PeerCredentials) throws(Refusal) { try self.admit(.streams, peer) }

  func releaseStream(of peer: PeerCredentials) { self.release(.streams, peer) }

  /// Admits one more question to the kernel, until it is answered.
  ///
  /// - Throws: RESOURCE_EXHAUSTED.
  func admitQuestion(of user: UInt32) throws(RPCError) {
    do throws(Refusal) {
      try self.admit(.questions, PeerCredentials(uid: user, pid: 0))
    } catch {
      throw RPCError(code: .resourceExhausted, message: error.message)
    }
  }

  func releaseQuestion(of user: UInt32) {
    self.release(.questions, PeerCredentials(uid: user, pid: 0))
  }

  func refuseMessage(of peer: PeerCredentials, longest: Int) -> Refusal {
    self.turnedAway(peer, limit: "messageSize")
    return Refusal("a request has at most \(longest) bytes (limits.messageSize)")
  }

  private func admit(_ kind: Kind, _ peer: PeerCredentials) throws(Refusal) {
    do throws(Quota.Refusal) {
      try self.state.withLock { (state) throws(Quota.Refusal) in
        try state.quotas[kind]?.admit(peer.uid)
      }
    } catch {
      let what = kind.rawValue
      switch error {
      case .inAll(let most):
        self.turnedAway(peer, limit: what)
        throw Refusal("connd admits at most \(most) \(what) (limits.\(what))")
      case .forOthers(let most):
        self.turnedAway(peer, limit: what)
        throw Refusal(
          "what is left of the \(most) \(what) that connd admits is kept for others than uid \(peer.uid) (limits.\(what))"
        )
      case .ofOneUser(let most):
        let limit = "\(what)PerUser"
        self.turnedAway(peer, limit: limit)
        throw Refusal(
          "connd admits at most \(most) \(what) of a user, here uid \(peer.uid) (limits.\(limit))"
        )
      }
    }
  }

  private func release(_ kind: Kind, _ peer: PeerCredentials) {
    self.state.withLock { $0.quotas[kind]?.release(peer.uid) }
  }

  /// Something of a client's exceeded a limit, which it was told.
  func turnedAway(_ peer: PeerCredentials, limit: String) {
    self.statistics.hit(limit)
    self.log(limit, "a client has exceeded limits.\(limit)") {
      ["uid": "\(peer.uid)", "pid": "\(peer.pid)"]
    }
  }

  func acceptFailed(_ error: SystemError) {
    self.state.withLock { $0.acceptError = error }
    self.statistics.hit("descriptors")
    self.log("descriptors", "no connection can be accepted; clients wait") { ["error": "\(error)"] }
  }

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
