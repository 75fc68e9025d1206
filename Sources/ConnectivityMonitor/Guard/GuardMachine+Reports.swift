package import Connectivity

extension GuardMachine {
  /// A flow as registered with connd, with its state by connd's reports since then.
  struct Registration: Equatable, Sendable {
    typealias ID = UInt64

    enum Progress: Sendable {
      case unreported
      /// connd saw no path for the new connection, and has seen none since.
      case doubted
      case reported
      /// connd has given up the flow, and no longer guards it.
      case destroyed
    }

    let id: ID
    var flow: FlowGuard.Flow
    var progress = Progress.unreported
    /// The source address of the first reported path that is satisfied. connd assumes this address
    /// for a flow without one.
    private var source: IPAddress?
    /// The last reported path that is satisfied.
    private(set) var path: KernelPath?

    init(id: ID, flow: FlowGuard.Flow) {
      self.id = id
      self.flow = flow
    }

    /// The flow's own address, or the one that connd assumes.
    var address: IPAddress? { self.flow.local ?? self.source }

    /// - Parameter isNew: Whether the flow is a connection that has just been made.
    mutating func note(_ event: FlowEvent, isNew: Bool = false) {
      switch self.progress {
      case _ where event.destroys: self.progress = .destroyed
      case .unreported: self.progress = isNew && event.raisesDoubt ? .doubted : .reported
      case .doubted: if event.settlesDoubt { self.progress = .reported }
      case .reported, .destroyed: break
      }
      guard let path = event.ownPath, path.status == .satisfied else { return }
      self.source = self.source ?? path.source
      self.path = path
    }
  }

  /// The meaning of an event for the owner of the connection.
  package enum EventPhase: Sendable {
    /// The answer before the connection is made.
    case answer
    /// The answer to the registration of a new connection, or of one that is being made without
    /// waiting for the answer.
    case verdict
    /// The outcome after a verdict without a path: the first path since, or the end.
    case outcome
    /// The answer to a later registration of the same connection, or the first answer if the
    /// attempt failed before.
    case again
    /// Any other event, such as a change after the first report.
    case change

    /// Whether the event is newer than the registration. Registering again would only repeat any
    /// other event.
    package var isNews: Bool {
      switch self {
      case .outcome, .change: true
      case .answer, .verdict, .again: false
      }
    }
  }

  /// connd's answer before the connection is made.
  package enum Answer: Equatable, Sendable {
    case path(KernelPath)
    /// The connection would be invalid immediately.
    case invalidation(InvalidationError)
    /// The connection is not guarded: connd is not running, or refused it.
    case unguarded
    /// connd accepted the request but has not answered.
    case silence

    /// Returns the answer that an event contains, or `nil` if it contains none.
    init?(_ event: FlowEvent) {
      switch event {
      case .path(let path), .betterPathGone(let path): self = .path(path)
      case .invalidation(let invalidation):
        guard event.destroys else { return nil }
        self = .invalidation(invalidation)
      case .refused: self = .unguarded
      }
    }

    /// The path in the answer.
    package var path: KernelPath? {
      switch self {
      case .path(let path): path
      case .invalidation(let invalidation): invalidation.path
      case .unguarded, .silence: nil
      }
    }
  }
}

extension FlowEvent {
  /// Whether the event reports that the flow has no path but does not end it. An unknown path does
  /// not count.
  fileprivate var raisesDoubt: Bool {
    guard !self.destroys, let status = self.path?.status else { return false }
    return status == .unsatisfied || status == .requiresConnection
  }

  /// Whether the event ends the doubt: a satisfied path, or the end of the flow.
  var settlesDoubt: Bool { self.destroys || self.path?.status == .satisfied }
}
