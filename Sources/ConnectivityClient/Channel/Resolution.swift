internal import GRPCCore
internal import GRPCNIOTransportHTTP2Posix
internal import Logging
private import Synchronization

/// The addresses of a channel's target. Each attempt to connect queries them again (C2). If the
/// resolver pushes its results, its last result is used.
final class Resolution: Sendable {
  typealias Addresses = [GRPCNIOTransportHTTP2Posix.SocketAddress]
  private typealias Answer = Result<Addresses, any Error>

  private struct State {
    /// The last pushed result.
    var told: Answer?
    var waiters: [AsyncStream<Answer>.Continuation] = []
    var hasSaidIgnored = false
  }

  private let resolver: NameResolver
  private let logger: Logger?
  private let state = Mutex(State())

  init(_ resolver: NameResolver, _ logger: Logger? = nil) {
    self.resolver = resolver
    self.logger = logger
  }

  private var tells: Bool {
    self.resolver.updateMode == .push
  }

  /// Listens to a resolver that pushes results until the task is cancelled. Returns immediately for
  /// any other resolver.
  func run() async {
    guard self.tells else { return }
    do {
      for try await result in self.resolver.names { self.told(.success(self.read(result))) }
    } catch {
      self.told(.failure(error))
    }
  }

  private func told(_ answer: Answer) {
    let waiters = self.state.withLock { state in
      state.told = answer
      defer { state.waiters = [] }
      return state.waiters
    }
    for waiter in waiters { waiter.yield(answer) }
  }

  /// Returns the addresses of all endpoints, one after the other.
  ///
  /// - Throws: `RPCError` UNAVAILABLE with the resolver's error (C5), or if it does not answer in
  ///   time.
  func addresses(within duration: Duration) async throws(RPCError) -> Addresses {
    // A resolver may ignore cancellation. Its late answer is dropped.
    let (answers, answer) = AsyncStream.makeStream(of: Answer.self)
    let timer = Task {
      try await Task.sleep(for: duration)
      answer.yield(
        .failure(RPCError(code: .unavailable, message: "The name was not resolved in time.")))
    }
    let lookup = self.tells ? self.listen(answer) : Task { answer.yield(await self.lookUp()) }
    defer {
      timer.cancel()
      lookup?.cancel()
    }
    do {
      for await answer in answers { return try answer.get() }
    } catch {
      let why = (error as? RPCError).map { error in
        error.cause.map { "\(error.message): \($0)" } ?? error.message
      }
      throw RPCError(code: .unavailable, message: why ?? "\(error)", cause: error)
    }
    throw ChannelMachine.shutdownError
  }

  private func listen(_ answer: AsyncStream<Answer>.Continuation) -> Task<Void, Never>? {
    self.state.withLock { state in
      if let told = state.told { answer.yield(told) } else { state.waiters.append(answer) }
    }
    return nil
  }

  private func lookUp() async -> Answer {
    do {
      var names = self.resolver.names.makeAsyncIterator()
      return .success(try await names.next().map(self.read) ?? [])
    } catch {
      return .failure(error)
    }
  }

  private func read(_ result: NameResolutionResult) -> Addresses {
    if result.serviceConfig != nil, let logger = self.logger {
      let isFirst = self.state.withLock { state in
        defer { state.hasSaidIgnored = true }
        return !state.hasSaidIgnored
      }
      if isFirst {
        logger.warning(
          "ignoring the resolver's service config: only the channel's own applies")
      }
    }
    return result.endpoints.flatMap(\.addresses)
  }
}
