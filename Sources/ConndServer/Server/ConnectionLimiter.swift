import Connectivity
import GRPCCore
import Invariants
import LinuxSupport
import Logging
import Synchronization
import UnixTransport

/// Admits clients and their calls within the limits, and logs refusals. Safe to use from any
/// thread.
final class ConnectionLimiter: Admission {
  private struct Count {
    var quota: Quota
    var usage = Usage()
  }

  private struct State {
    var counts: [LimitedResource: Count] = [:]
    var throttles: [String: LogThrottle] = [:]
    /// The current reason why connections cannot be accepted, or `nil` if they can.
    var acceptError: SystemError?

    mutating func setQuota(_ resource: LimitedResource, _ inAll: Int, _ ofOneUser: Int) {
      let quota = Quota(inAll: inAll, ofOneUser: ofOneUser)
      self.counts[resource, default: Count(quota: quota)].quota = quota
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

  deinit {
    // Each charge retains the limiter, so no charge is left.
    self.state.withLock { state in
      invariant(
        state.counts.values.allSatisfy(\.usage.isEmpty), "all that was admitted is released")
    }
  }

  /// Returns the amount of a resource in use.
  func inUse(_ resource: LimitedResource) -> Int {
    self.state.withLock { $0.counts[resource]?.usage.count ?? 0 }
  }

  /// Applies new limits. Clients and calls that were admitted before are kept.
  func configure(_ limits: Limits) {
    // Descriptors are reserved for reading sysfs and writing the history. Otherwise connd's answers
    // would be wrong.
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

  func connectionFailed(of peer: PeerCredentials, _ error: UInt32) {
    self.statistics.hit("floods")
    self.log("floods", "closed a client's connection: it floods, or is not HTTP/2") {
      ["uid": "\(peer.uid)", "pid": "\(peer.pid)", "error": "\(error)"]
    }
  }

  /// Charges a client for one more query to the kernel, until it is answered.
  ///
  /// - Throws: RESOURCE_EXHAUSTED if the client has too many pending queries.
  func chargeQuestion(to peer: PeerCredentials) throws(RPCError) -> Charge {
    do throws(Refusal) {
      return try Charge(1, of: .questions, by: peer, self)
    } catch {
      throw RPCError(code: .resourceExhausted, message: error.message)
    }
  }

  func refuseMessage(of peer: PeerCredentials, maxLength: Int) -> Refusal {
    self.refused(peer, limit: "messageSize")
    return Refusal("a request may have at most \(maxLength) bytes (limits.messageSize)")
  }

  func admit(
    _ amount: Int, of resource: LimitedResource, by peer: PeerCredentials
  ) throws(Refusal) {
    do throws(Quota.Refusal) {
      try self.state.withLock { (state) throws(Quota.Refusal) in
        guard let count = state.counts[resource] else { return }
        try count.quota.check(amount, of: peer.user, beside: count.usage)
        state.counts[resource]?.usage.add(amount, of: peer.user)
      }
      self.trimmer?.use(amount * resource.cost)
    } catch {
      let (key, what) = (resource.rawValue, resource.text)
      switch error {
      case .inAll(let bound):
        self.refused(peer, limit: key)
        throw Refusal("connd has reached its limit of \(bound) \(what) (limits.\(key))")
      case .forOthers(let bound):
        self.refused(peer, limit: key)
        throw Refusal(
          "uid \(peer.uid) has reached its share of the \(bound) \(what) (limits.\(key))"
        )
      case .ofOneUser(let bound):
        let limit = "\(key)PerUser"
        self.refused(peer, limit: limit)
        throw Refusal(
          "uid \(peer.uid) has reached its limit of \(bound) \(what) (limits.\(limit))"
        )
      case .forOtherUnknown(let bound):
        let limit = "\(key)PerUser"
        self.refused(peer, limit: limit)
        throw Refusal(
          "uid \(peer.uid) has reached its share of the \(bound) \(what) of all users without a known owner (limits.\(limit))"
        )
      }
    }
  }

  func release(_ amount: Int, of resource: LimitedResource, by peer: PeerCredentials) {
    self.state.withLock { state in
      let used = state.counts[resource]?.usage.count(of: peer.user) ?? 0
      invariant(amount <= used, "only what was admitted is released")
      state.counts[resource]?.usage.remove(amount, of: peer.user)
    }
    self.trimmer?.free(amount * resource.cost)
  }

  /// Counts and logs that a client exceeded a limit and received a refusal.
  func refused(_ peer: PeerCredentials, limit: String) {
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

extension LimitedResource {
  /// The name of the resource in messages.
  fileprivate var text: String { self == .pendingMemory ? "pending bytes" : self.rawValue }

  /// The approximate memory of one unit of the resource, in bytes.
  fileprivate var cost: Int {
    switch self {
    case .connections: MemoryTrimmer.costOfConnection
    case .streams: MemoryTrimmer.costOfStream
    case .questions: 0
    case .pendingMemory: 1
    }
  }
}
