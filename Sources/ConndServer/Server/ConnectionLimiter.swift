import Connectivity
import GRPCCore
import LinuxSupport
import Logging
import Synchronization
import UnixTransport

/// Admits clients and their calls within the limits, and logs refusals. Safe to use from any
/// thread.
final class ConnectionLimiter: Admission {
  /// The kind of resource. The raw value is the limit's key.
  private enum Kind: String {
    case connections, streams, questions, pendingMemory

    /// The name of the resource in messages.
    var words: String { self == .pendingMemory ? "pending bytes" : self.rawValue }

    /// The approximate memory in bytes that one of them takes.
    var cost: Int {
      switch self {
      case .connections: MemoryTrimmer.costOfConnection
      case .streams: MemoryTrimmer.costOfStream
      case .questions: 0
      case .pendingMemory: 1
      }
    }
  }

  private struct Count {
    var quota: Quota
    var usage = Usage()
  }

  private struct State {
    var counts: [Kind: Count] = [:]
    var throttles: [String: LogThrottle] = [:]
    /// The current reason why connections cannot be accepted, or `nil` if they can.
    var acceptError: SystemError?

    mutating func setQuota(_ kind: Kind, _ inAll: Int, _ ofOneUser: Int) {
      let quota = Quota(inAll: inAll, ofOneUser: ofOneUser)
      self.counts[kind, default: Count(quota: quota)].quota = quota
    }
  }

  private let state = Mutex(State())
  private let accounts: Accounts
  private let trimmer: MemoryTrimmer?
  private let statistics: Statistics
  private let logger: Logger

  init(
    _ limits: Limits, accounts: Accounts = Accounts(), trimmer: MemoryTrimmer? = nil,
    statistics: Statistics, logger: Logger
  ) {
    self.accounts = accounts
    self.trimmer = trimmer
    self.statistics = statistics
    self.logger = logger
    self.configure(limits)
  }

  /// Applies other limits. Whatever was admitted before stays.
  func configure(_ limits: Limits) {
    // The last descriptors are for reading sysfs and writing the history. Without them connd's
    // answers would be wrong.
    let connections = min(limits.connections, ProcessLimits.maxClients)
    if connections < limits.connections {
      self.logger.notice(
        "RLIMIT_NOFILE allows fewer connections than limits.connections",
        metadata: ["limit": "\(limits.connections)", "admitted": "\(connections)"])
    }
    self.state.withLock { state in
      state.setQuota(.connections, connections, limits.connectionsPerUser)
      state.setQuota(.streams, limits.streams, limits.streamsPerUser)
      state.setQuota(.questions, limits.questions, limits.questionsPerUser)
      state.setQuota(.pendingMemory, limits.pendingMemory, limits.pendingMemoryPerUser)
    }
  }

  func account(ofUID uid: UInt32) -> Account { self.accounts.account(ofUID: uid) }

  func admitConnection(of peer: PeerCredentials) throws(Refusal) {
    try self.admit(.connections, peer)
  }

  func releaseConnection(of peer: PeerCredentials) { self.release(.connections, peer) }

  func connectionFailed(of peer: PeerCredentials, _ error: UInt32) {
    self.statistics.hit("floods")
    self.log("floods", "closed a client's connection: it floods, or is not HTTP/2") {
      ["uid": "\(peer.uid)", "pid": "\(peer.pid)", "error": "\(error)"]
    }
  }

  func admitStream(of peer: PeerCredentials) throws(Refusal) { try self.admit(.streams, peer) }

  func releaseStream(of peer: PeerCredentials) { self.release(.streams, peer) }

  func admitMemory(_ bytes: Int, of peer: PeerCredentials) throws(Refusal) {
    try self.admit(.pendingMemory, peer, bytes)
  }

  func releaseMemory(_ bytes: Int, of peer: PeerCredentials) {
    self.release(.pendingMemory, peer, bytes)
  }

  /// Admits one more query to the kernel, until it is answered.
  ///
  /// - Throws: RESOURCE_EXHAUSTED.
  func admitQuestion(of peer: PeerCredentials) throws(RPCError) {
    do throws(Refusal) {
      try self.admit(.questions, peer)
    } catch {
      throw RPCError(code: .resourceExhausted, message: error.message)
    }
  }

  func releaseQuestion(of peer: PeerCredentials) { self.release(.questions, peer) }

  func refuseMessage(of peer: PeerCredentials, longest: Int) -> Refusal {
    self.turnedAway(peer, limit: "messageSize")
    return Refusal("a request may have at most \(longest) bytes (limits.messageSize)")
  }

  private func admit(_ kind: Kind, _ peer: PeerCredentials, _ amount: Int = 1) throws(Refusal) {
    do throws(Quota.Refusal) {
      try self.state.withLock { (state) throws(Quota.Refusal) in
        guard let count = state.counts[kind] else { return }
        try count.quota.check(amount, of: peer.account, beside: count.usage)
        state.counts[kind]?.usage.add(amount, of: peer.account)
      }
      self.trimmer?.use(amount * kind.cost)
    } catch {
      let (key, what) = (kind.rawValue, kind.words)
      switch error {
      case .inAll(let most):
        self.turnedAway(peer, limit: key)
        throw Refusal("connd has reached its limit of \(most) \(what) (limits.\(key))")
      case .forOthers(let most):
        self.turnedAway(peer, limit: key)
        throw Refusal(
          "uid \(peer.uid) has reached its share of the \(most) \(what) (limits.\(key))"
        )
      case .ofOneUser(let most):
        let limit = "\(key)PerUser"
        self.turnedAway(peer, limit: limit)
        throw Refusal(
          "uid \(peer.uid) has reached its limit of \(most) \(what) (limits.\(limit))"
        )
      }
    }
  }

  private func release(_ kind: Kind, _ peer: PeerCredentials, _ amount: Int = 1) {
    self.state.withLock { $0.counts[kind]?.usage.remove(amount, of: peer.account) }
    self.trimmer?.free(amount * kind.cost)
  }

  /// Counts and logs that a client exceeded a limit and received a refusal.
  func turnedAway(_ peer: PeerCredentials, limit: String) {
    self.statistics.hit(limit)
    self.log(limit, "a client has exceeded limits.\(limit)") {
      ["uid": "\(peer.uid)", "pid": "\(peer.pid)"]
    }
  }

  func acceptFailed(_ error: SystemError) {
    self.state.withLock { $0.acceptError = error }
    self.statistics.hit("descriptors")
    self.log("descriptors", "cannot accept connections; clients wait") { ["error": "\(error)"] }
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
