internal import Connectivity
internal import ConnectivityMonitor
internal import GRPCCore
internal import GRPCNIOTransportHTTP2Posix
private import Logging
private import NIOCore
private import Synchronization

/// Implements rule C8.
extension Channel {
  /// Resolves the name, tries the addresses in order, and returns when the resulting connection has
  /// ended.
  ///
  /// - Parameter duration: The time limit for resolving the name, and for each address (C4).
  func attempt(_ id: UInt64, atMost duration: Duration, _ hub: GuardHub) async {
    self.follow([])
    for former in self.state.withLock({ $0.takeAttempts { $0.id != id } }) { former.giveUp() }
    let tries: [Try]
    do throws(RPCError) {
      tries = try await self.beside(otherWayFor: id, atMost: duration, hub) { addresses in
        await self.race(id, addresses, atMost: duration, hub)
      }
    } catch {
      self.failed(id, error, atOnce: true)
      return
    }
    let flows = tries.compactMap(\.flow)
    // The attempt has ended, or a change of the network has started another.
    guard self.isWanted(id) else {
      for flow in flows { flow.end() }
      return
    }
    var failure: RPCError?
    var refusal: NetworkUnavailableError?
    var paths = AttemptedPaths()
    for one in await self.askOnceMore(tries) {
      switch one.outcome {
      case .failed(let error), .timedOut(let error), .left(let error):
        failure = error
        paths.tried.append(one.path)
        paths.includeLocal = paths.includeLocal || one.isLocal
      case .forbidden(let why): refusal = why
      case .unwanted: paths.unwanted.append(one.path)
      case .over, .limping: break
      }
    }
    // An error from the network is more useful than the refusal of an attempt.
    if let failure {
      self.failed(id, failure, paths, atOnce: false)
    } else if !paths.unwanted.isEmpty {
      // Calls that may use other networks keep waiting.
      let error = RPCError(code: .unavailable, message: "No call may use the network.")
      self.failed(id, error, paths, atOnce: true)
    } else if let refusal {
      self.failed(id, RPCError(refusal), atOnce: true)
    } else {
      let error = RPCError(code: .unavailable, message: "The name has no addresses.")
      self.failed(id, error, atOnce: true)
    }
    self.follow(flows)
  }

  /// Whether the other way has begun.
  private final class Beginning: Sendable {
    private let flag = Mutex(false)

    var hasHappened: Bool { self.flag.withLock { $0 } }

    func happen() { self.flag.withLock { $0 = true } }
  }

  private enum Part: Sendable {
    case resolved(Result<Addresses, RPCError>)
    /// The name was not resolved within ``maxLookupTime``.
    case slow
    case raced([Try])
    case otherWayEnded
  }

  /// Resolves the name and runs an attempt. If the attempt makes no progress, tries the other way
  /// beside it.
  ///
  /// - Parameter race: Tries the addresses by the default way.
  /// - Returns: The result of `race`, once neither way has a connection.
  /// - Throws: The resolver's error. The error has no effect if calls got a connection by the other
  ///   way.
  func beside(
    otherWayFor id: UInt64, atMost duration: Duration, _ hub: GuardHub,
    _ race: @escaping @Sendable (Addresses) async -> [Try]
  ) async throws(RPCError) -> [Try] {
    let (start, former) = (ContinuousClock.now, self.state.withLock { $0.addresses })
    let deadline = start + duration
    let result = await withTaskGroup(of: Part.self) { group -> Result<[Try], RPCError> in
      let beginning = Beginning()
      var isWatched = false
      func watch(_ addresses: Addresses) {
        guard !isWatched, self.mayTakeOtherWay(to: addresses) else { return }
        isWatched = true
        group.addTask {
          await self.takeOtherWay(id, to: addresses, until: deadline, hub) {
            beginning.happen()
          }
          return .otherWayEnded
        }
      }
      watch(former)
      func watchLookup() {
        group.addTask {
          try? await self.settings.eventLoop.sleep(for: Self.maxLookupTime)
          return .slow
        }
      }
      watchLookup()
      group.addTask {
        do throws(RPCError) {
          let found = try await self.resolve(id, within: duration, hub)
          let addresses = self.settings.shufflesAddresses ? found.shuffled() : found
          return .resolved(.success(addresses.alternatingFamilies))
        } catch {
          return .resolved(.failure(error))
        }
      }
      var (progress, result) = (AttemptProgress(), nil as Result<[Try], RPCError>?)
      func tryFormer() {
        guard self.isWanted(id), self.hasChangedSinceResolution,
          progress.begin(former, LookupThreads.shared.lastChange, at: .now)
        else { return }
        group.addTask { .raced(await race(former)) }
      }
      for await part in group {
        switch part {
        case .resolved(.success(let addresses)):
          self.state.withLock { ($0.addresses, $0.resolutionTime) = (addresses, start) }
          watch(addresses)
          let new = progress.resolved(addresses)
          if let new, self.isWanted(id) {
            progress.races += 1
            group.addTask { .raced(await race(new)) }
          }
        case .resolved(.failure(let error)):
          progress.failure = error
          if NameSearch.isTemporary(error) { tryFormer() }
        case .slow where progress.isResolved || !self.isWanted(id): continue
        case .slow:
          watchLookup()
          self.update { state in
            state.isSearchSlow = true
            return state.waitingForPath()
          }
          if self.state.withLock({ $0.search })?.isUnanswered == true { tryFormer() }
        case .raced(let tries): progress.ended(tries)
        case .otherWayEnded: continue
        }
        result = progress.result
        // Once the other way has begun, it continues, unless the channel gets another connection.
        if result != nil, !beginning.hasHappened { group.cancelAll() }
      }
      return result ?? .failure(ChannelMachine.shutdownError)
    }
    return try result.get()
  }

  /// Whether the channel knows addresses of the name, and the network has changed since they were
  /// resolved. The name servers may be out of reach since then (C5).
  private var hasChangedSinceResolution: Bool {
    guard let change = LookupThreads.shared.lastChange else { return false }
    return self.state.withLock { !$0.addresses.isEmpty && $0.resolutionTime < change }
  }

  /// How long a lookup may take before waiting callers learn that no path exists (C4). After a
  /// change of the network, the channel then also tries the name's last addresses (C5). The value
  /// is the delay of RFC 8305 between two attempts.
  private static let maxLookupTime = Duration.milliseconds(250)

  /// An event while addresses are tried.
  private enum Step: Sendable {
    case ended(place: Int, Try)
    /// The head start of this attempt has passed, so the next may begin.
    case delayed(place: Int)
  }

  /// Tries the addresses in order. Starts the next one when one fails, or has not connected within
  /// ``attemptDelay`` (Happy Eyeballs, RFC 8305). The first that is ready becomes the connection,
  /// and the others are given up.
  ///
  /// - Returns: The outcomes of the started tries, in order, once all have ended, including the
  ///   connection.
  private func race(
    _ id: UInt64, _ addresses: [GRPCNIOTransportHTTP2Posix.SocketAddress],
    atMost duration: Duration, _ hub: GuardHub
  ) async -> [Try] {
    await withTaskGroup(of: Step.self) { group in
      var tries: [Int: Try] = [:]
      var started = 0
      func startNext() {
        guard started < addresses.count else { return }
        let place = started
        started += 1
        let isLast = started == addresses.count
        group.addTask {
          let one = await self.connect(
            id, to: addresses[place], atMost: duration, isLast: isLast, hub)
          return .ended(place: place, one)
        }
        if isLast { return }
        group.addTask {
          try? await self.settings.eventLoop.sleep(for: Self.attemptDelay)
          return .delayed(place: place)
        }
      }
      startNext()
      while tries.count < started, let step = await group.next() {
        switch step {
        case .ended(let place, let one):
          tries[place] = one
          self.keep(one.flow, of: id)
        // The next try has already started.
        case .delayed(let place) where place + 1 < started: continue
        case .delayed: break
        }
        if self.isWanted(id) { startNext() }
      }
      group.cancelAll()
      return tries.sorted { $0.key < $1.key }.map(\.value)
    }
  }

  /// Keeps the flow of a failed try as long as no other address is ready.
  private func keep(_ flow: ConnectionGuard?, of id: UInt64) {
    guard let flow else { return }
    let isWanted = self.state.withLock { state in
      let isWanted = state.machine.isConnecting(id)
      if isWanted { state.guards.append(flow) }
      return isWanted
    }
    if !isWanted { flow.end() }
  }

  /// RFC 8305's Connection Attempt Delay, as recommended there.
  private static let attemptDelay = Duration.milliseconds(250)

  func isWanted(_ id: UInt64) -> Bool {
    self.state.withLock { $0.machine.isConnecting(id) }
  }

  /// The paths to a target's addresses that the channel may use.
  private struct AttemptedPaths {
    /// The paths of addresses that were tried; `nil` if unknown.
    var tried: [KernelPath?] = []
    /// The paths of addresses that were not tried, because no call waiting at the time could use
    /// them.
    var unwanted: [KernelPath?] = []
    /// Whether a tried address needs no network, so that every call may use it.
    var includeLocal = false

    /// Returns why a call may use none of the paths, or `nil` if it may use one.
    func refusal(_ access: NetworkAccess) -> NetworkUnavailableError? {
      if self.includeLocal { return nil }
      // Unsatisfied paths do not count, because no call can use them.
      let paths = (self.tried + self.unwanted).filter { $0?.status != .unsatisfied }
      let refusals = paths.map { access.refusal(of: $0 ?? .unknown) }
      return refusals.contains { $0 == nil } ? nil : refusals.compactMap { $0 }.first
    }

    /// Whether a call could use a path that was not tried.
    func mayHold(_ access: NetworkAccess) -> Bool {
      self.unwanted.contains { access.refusal(of: $0 ?? .unknown) == nil }
    }
  }

  private func failed(
    _ id: UInt64, _ error: RPCError, _ paths: AttemptedPaths = AttemptedPaths(), atOnce: Bool
  ) {
    self.logger?.debug("could not connect", metadata: ["error": "\(error)"])
    self.update { state in
      let refused = state.waiters.compactMapValues { paths.refusal($0.access).map { RPCError($0) } }
      let spared = state.waiters.filter { paths.mayHold($0.value.access) }.keys
      return state.machine.failed(
        id, error, atOnce: atOnce, refused: refused, spared: Set(spared), now: .now,
        random: Double.random(in: -1...1))
    }
  }

  /// Queries paths again that connd was slow to report, if a call with restrictions is waiting.
  private func askOnceMore(_ tries: [Try]) async -> [Try] {
    guard self.state.withLock({ $0.waiters.values.contains { !$0.access.isUnrestricted } }) else {
      return tries
    }
    return await withTaskGroup(of: (Int, KernelPath?).self) { group in
      for (place, one) in tries.enumerated() where one.path == nil {
        // A try that sent nothing has already waited for connd's answer.
        guard one.outcome.wasMade, let flow = one.flow else { continue }
        group.addTask { (place, await flow.answer(isRestricted: true).path) }
      }
      var tries = tries
      for await (place, path) in group { tries[place].path = path }
      return tries
    }
  }

  /// Follows the flows of a failed attempt until the next attempt. If a path becomes satisfied, the
  /// backoff ends early (C4).
  func follow(_ flows: [ConnectionGuard]) {
    let (previous, resolver) = self.state.withLock { state in
      defer { (state.guards, state.resolver) = (flows, nil) }
      return (state.guards, state.resolver)
    }
    withExtendedLifetime(resolver) {}
    for flow in previous where !flows.contains(where: { $0 === flow }) { flow.end() }
    for flow in flows { flow.follow() }
  }
}

extension Channel.Outcome {
  /// Whether something was sent.
  fileprivate var wasMade: Bool {
    switch self {
    case .over, .failed, .timedOut, .left, .limping: true
    case .forbidden, .unwanted: false
    }
  }
}

extension [GRPCNIOTransportHTTP2Posix.SocketAddress] {
  /// The addresses in alternating families, beginning with the family of the first address (RFC
  /// 8305, section 4).
  var alternatingFamilies: Self {
    let isFirst = self.map { ($0.ipv6 == nil) == (self.first?.ipv6 == nil) }
    let first = zip(self, isFirst).filter(\.1).map(\.0)
    let second = zip(self, isFirst).filter { !$0.1 }.map(\.0)
    let turns = Swift.min(first.count, second.count)
    return zip(first, second).flatMap { [$0, $1] } + first.dropFirst(turns)
      + second.dropFirst(turns)
  }
}
