internal import ConnectivityMonitor
internal import GRPCCore
private import Synchronization

/// The search for the addresses of one attempt to connect, driven by ``LookupMachine``. Safe to use
/// from any thread.
final class NameSearch: Sendable {
  typealias Addresses = Resolution.Addresses
  typealias Answer = Result<Addresses, any Error>
  /// Cancels a lookup, so that its answer is dropped.
  typealias Cancellation = @Sendable () -> Void
  /// Starts a lookup, which calls the closure at most once, perhaps immediately.
  typealias Lookup = @Sendable (@escaping @Sendable (Answer) -> Void) -> Cancellation

  private enum Timer {
    case limit
    case settling
  }

  private struct State {
    var machine = LookupMachine<Addresses>()
    var cancellations: [Cancellation] = []
    var answer: Answer?
    var waiter: CheckedContinuation<Answer, Never>?
    var timers: [Timer: ClientThread.Timer] = [:]
  }

  /// How long a failure is withheld after a change of the network.
  private static let settlingTime = Duration.seconds(1)

  private static let tooSlow = RPCError(
    code: .unavailable, message: "The name was not resolved in time.")

  private let lookUp: Lookup
  private let state = Mutex(State())

  init(_ lookUp: @escaping Lookup) {
    self.lookUp = lookUp
  }

  /// Whether a change of the network affects this search.
  var hasBegun: Bool { self.state.withLock { $0.machine.hasBegun } }

  /// Whether no name server has answered since the last change. A failure that is withheld is an
  /// answer, too, unless it is temporary.
  var isUnanswered: Bool {
    self.state.withLock { $0.machine.failure.map(Self.isTemporary) ?? true }
  }

  /// Whether the system's resolver reports that no name server answered.
  static func isTemporary(_ error: any Error) -> Bool {
    let error = (error as? RPCError)?.cause ?? error
    return (error as? LookupError)?.isTemporary ?? false
  }

  /// Begins the search and returns the addresses. Called once.
  ///
  /// - Parameter change: When the network last changed, or `nil` if it has not.
  /// - Throws: `RPCError` UNAVAILABLE with the resolver's error (C5), or if the resolver does not
  ///   answer in time.
  func addresses(
    within duration: Duration, after change: ContinuousClock.Instant? = nil
  ) async throws(RPCError) -> Addresses {
    let settling = change.map { Self.settlingTime - ($0.duration(to: .now)) } ?? .zero
    let answer = await withTaskCancellationHandler {
      await withCheckedContinuation { waiter in
        let early = self.state.withLock { state in
          if state.answer == nil { state.waiter = waiter }
          return state.answer
        }
        if let early { return waiter.resume(returning: early) }
        self.handle(.begin(isSettling: settling > .zero))
        if settling > .zero {
          self.start(.settling, settling, then: .settled, unlessRunning: true)
        }
        self.start(.limit, duration, then: .giveUp(Self.tooSlow))
      }
    } onCancel: {
      self.end()
    }
    do {
      return try answer.get()
    } catch let error as RPCError where error.code == .unavailable && error.cause == nil {
      throw error
    } catch {
      let why = (error as? RPCError).map { error in
        error.cause.map { "\(error.message): \($0)" } ?? error.message
      }
      throw RPCError(code: .unavailable, message: why ?? "\(error)", cause: error)
    }
  }

  /// Handles a change of the network.
  func changed() { self.handle(.changed) }

  /// Ends the search without waiting for lookups, because the channel is shut down.
  func end() { self.handle(.giveUp(ChannelMachine.shutdownError)) }

  /// Starts a timer, which replaces an earlier one of its kind, unless the search is over.
  private func start(
    _ kind: Timer, _ duration: Duration, then input: LookupMachine<Addresses>.Input,
    unlessRunning: Bool = false
  ) {
    let timer = Connector.shared.thread.timer(after: duration) { self.handle(input) }
    let obsolete = self.state.withLock { state in
      // A change in the meantime has started a timer that lasts longer.
      guard state.machine.isSearching, !unlessRunning || state.timers[kind] == nil else {
        return Optional(timer)
      }
      return state.timers.updateValue(timer, forKey: kind)
    }
    obsolete?.cancel()
  }

  private func handle(_ input: LookupMachine<Addresses>.Input) {
    for action in self.state.withLock({ $0.machine.handle(input) }) { self.perform(action) }
  }

  /// Performs an action. Called outside the lock, because a lookup may end immediately.
  private func perform(_ action: LookupMachine<Addresses>.Action) {
    switch action {
    case .start(let id):
      let cancel = self.lookUp { self.handle(.ended(id, $0)) }
      let isWanted = self.state.withLock { state in
        let isWanted = state.machine.isRunning(id)
        if isWanted { state.cancellations.append(cancel) }
        return isWanted
      }
      if !isWanted { cancel() }
    case .settle: self.start(.settling, Self.settlingTime, then: .settled)
    case .finish(let answer):
      let former = self.state.withLock { state in
        defer { (state.cancellations, state.waiter, state.timers) = ([], nil, [:]) }
        state.answer = answer
        return state
      }
      for timer in former.timers.values { timer.cancel() }
      for cancel in former.cancellations { cancel() }
      former.waiter?.resume(returning: answer)
    }
  }
}
