private import DequeModule
internal import GRPCNIOTransportHTTP2Posix
private import LinuxSupport
private import Synchronization

/// Looks up names with getaddrinfo(3), which blocks its thread and cannot be interrupted. Each
/// lookup has its own thread, because it may wait seconds for a server that other lookups do not
/// need. Channels share one lookup for the same name and port.
///
/// The C library reads resolv.conf(5) at the start of each lookup (glibc since 2.26). A lookup that
/// starts after a change therefore uses the new servers. Earlier lookups may hang, so later
/// requests neither join them nor wait for their threads.
final class LookupThreads: Sendable {
  typealias Addresses = Resolution.Addresses
  typealias Answer = Result<Addresses, any Error>
  typealias Blocking = @Sendable (_ host: String, _ port: Int) throws -> Addresses

  /// The lookups of this process. Lookups beyond the limit wait until another one ends.
  static let shared = LookupThreads(limit: 64, getAddresses)

  private struct Name: Hashable {
    var host: String
    var port: Int
  }

  /// One lookup for all channels that want its answer.
  private struct Lookup {
    var name: Name
    var waiters: [UInt64: @Sendable (Answer) -> Void] = [:]
    /// When the lookup got its thread, or `nil` while it waits for one.
    var start: ContinuousClock.Instant?
  }

  /// A lookup that gets a thread, with the epoch that the thread belongs to.
  private struct Start {
    var lookup: UInt64
    var epoch: UInt64
  }

  private struct State {
    /// The lookups that run or wait, by number.
    var lookups: [UInt64: Lookup] = [:]
    /// The lookups that others may join: not started, or started since the last change.
    var joinable: [Name: UInt64] = [:]
    var queue: Deque<UInt64> = []
    /// The number of the last lookup or waiter.
    var last: UInt64 = 0
    /// The number of changes of the network.
    var epoch: UInt64 = 0
    var lastGeneration: UInt64 = 0
    var epochStart: ContinuousClock.Instant?
    var lastChange: ContinuousClock.Instant?
    /// The number of threads with lookups that started since the last change, and of all others.
    var current = 0
    var earlier = 0
  }

  private let limit: Int
  private let lookUp: Blocking
  private let state = Mutex(State())

  /// Path changes within this time count as one. A guess: 200 channels learn of one in 15 ms.
  private static let samePathChange = Duration.milliseconds(50)
  /// A lookup that started longer ago than this may have started before a change that a channel
  /// learns of now.
  private static let maxNotice = Duration.milliseconds(1)
  /// The maximum number of threads if the network keeps changing, as a multiple of the limit.
  private static let maxEpochs = 4

  init(limit: Int, _ lookUp: @escaping Blocking) {
    self.limit = limit
    self.lookUp = lookUp
  }

  /// When a channel last noted a change, or `nil` before the first.
  var lastChange: ContinuousClock.Instant? { self.state.withLock { $0.lastChange } }

  /// Notes a change of the network. From now on, other requests do not join the lookups that
  /// started before the change, and do not wait for their threads.
  ///
  /// - Parameter generation: connd's number of the change of the DNS servers, which all channels
  ///   receive, or `nil` for a change of a path.
  func changed(_ generation: UInt64?, now: ContinuousClock.Instant = .now) {
    let starts = self.state.withLock { state in
      if let generation, generation <= state.lastGeneration { return [] as [Start] }
      let waiting = Set(state.queue)
      state.joinable = state.joinable.filter { _, lookup in
        if waiting.contains(lookup) { return true }
        guard generation == nil, let start = state.lookups[lookup]?.start else { return false }
        return now - start < Self.maxNotice
      }
      // A name may have been resolved since the epoch began.
      state.lastChange = now
      if generation == nil, let start = state.epochStart, now - start < Self.samePathChange {
        return []
      }
      state.lastGeneration = max(state.lastGeneration, generation ?? 0)
      (state.epoch, state.epochStart) = (state.epoch + 1, now)
      state.earlier += state.current
      state.current = 0
      return self.takeStartable(&state)
    }
    for start in starts { self.startThread(for: start) }
  }

  /// Starts a lookup, or joins an equal one.
  ///
  /// - Parameter onAnswer: Called once on another thread, unless the lookup was cancelled.
  /// - Returns: A function that cancels the lookup. A lookup that has started keeps its thread
  ///   until it ends.
  func start(
    _ host: String, port: Int, onAnswer: @escaping @Sendable (Answer) -> Void
  ) -> @Sendable () -> Void {
    let name = Name(host: host, port: port)
    let (lookup, waiter, starts) = self.state.withLock { state in
      state.last += 1
      let waiter = state.last
      if let lookup = state.joinable[name] {
        state.lookups[lookup]?.waiters[waiter] = onAnswer
        return (lookup, waiter, [] as [Start])
      }
      state.lookups[waiter] = Lookup(name: name, waiters: [waiter: onAnswer])
      state.joinable[name] = waiter
      state.queue.append(waiter)
      return (waiter, waiter, self.takeStartable(&state))
    }
    for start in starts { self.startThread(for: start) }
    return { self.cancel(waiter, of: lookup) }
  }

  private func cancel(_ waiter: UInt64, of lookup: UInt64) {
    self.state.withLock { state in
      state.lookups[lookup]?.waiters[waiter] = nil
      // If no caller waits for a queued lookup any more, it need not run.
      guard state.lookups[lookup]?.waiters.isEmpty == true,
        let place = state.queue.firstIndex(of: lookup)
      else { return }
      state.queue.remove(at: place)
      _ = Self.remove(lookup, &state)
    }
  }

  /// Removes the lookups that may start now from the queue, and counts their threads.
  private func takeStartable(_ state: inout State) -> [Start] {
    let free = min(
      self.limit - state.current,
      self.limit * Self.maxEpochs - state.current - state.earlier)
    let starts = state.queue.prefix(max(0, free)).map { Start(lookup: $0, epoch: state.epoch) }
    for start in starts { state.lookups[start.lookup]?.start = .now }
    state.queue.removeFirst(starts.count)
    state.current += starts.count
    return starts
  }

  private static func remove(_ lookup: UInt64, _ state: inout State) -> Lookup? {
    guard let removed = state.lookups.removeValue(forKey: lookup) else { return nil }
    if state.joinable[removed.name] == lookup { state.joinable[removed.name] = nil }
    return removed
  }

  /// Removes a lookup that has ended, with its thread.
  private static func end(_ start: Start, _ state: inout State) -> Lookup? {
    if start.epoch == state.epoch { state.current -= 1 } else { state.earlier -= 1 }
    return Self.remove(start.lookup, &state)
  }

  private func startThread(for start: Start) {
    if Thread.start(named: "connd-lookup", { self.serve(start) }) { return }
    let failed = self.state.withLock { Self.end(start, &$0) }
    guard let failed else { return }
    let error = LookupError(
      description: "cannot resolve '\(failed.name.host)': no thread is left", isTemporary: true)
    for onAnswer in failed.waiters.values { onAnswer(.failure(error)) }
  }

  private func serve(_ first: Start) {
    var next: Start? = first
    while let start = next {
      let name = self.state.withLock { $0.lookups[start.lookup]?.name }
      let answer = name.map { name in Result { try self.lookUp(name.host, name.port) } }
      let (ended, following) = self.state.withLock { state in
        let ended = Self.end(start, &state)
        return (ended, self.takeStartable(&state))
      }
      if let answer, let ended { for onAnswer in ended.waiters.values { onAnswer(answer) } }
      next = following.first
      for other in following.dropFirst() { self.startThread(for: other) }
    }
  }
}

/// The error of the system's resolver.
struct LookupError: Error, CustomStringConvertible {
  let description: String
  /// Whether no name server answered, so that the name may exist.
  let isTemporary: Bool
}

/// Returns the addresses of a name, in the order of RFC 6724.
private func getAddresses(of host: String, port: Int) throws -> LookupThreads.Addresses {
  do throws(HostLookupError) {
    // The hosts include the zones of link-local addresses.
    return try addresses(ofHost: host).map { name in
      switch name.address.family {
      case .ipv4: .ipv4(host: name.host, port: port)
      case .ipv6: .ipv6(host: name.host, port: port)
      }
    }
  } catch {
    throw LookupError(
      description: "cannot resolve '\(host)': \(error)", isTemporary: error.isTemporary)
  }
}
