internal import Connectivity
internal import GRPCCore
internal import GRPCNIOTransportHTTP2Posix
internal import Logging
private import Synchronization

/// The addresses of a channel's target. Each attempt to connect queries them again (C2). If the
/// resolver pushes its results, its last result is used.
final class Resolution: Sendable {
  typealias Addresses = [GRPCNIOTransportHTTP2Posix.SocketAddress]
  private typealias Answer = NameSearch.Answer

  private struct State {
    /// The last pushed result.
    var reported: Answer?
    var waiters: [UInt64: @Sendable (Answer) -> Void] = [:]
    var lastWaiter: UInt64 = 0
    var hasSaidIgnored = false
  }

  /// The origin of the addresses.
  enum Source: Sendable {
    /// The system's resolver.
    case system(host: String, port: Int)
    case resolver(NameResolver)
    /// The target contains its addresses, so no network is needed.
    case fixed(NameResolver)

    /// Chooses the source for a target. The system's resolver replaces grpc-swift's, which makes
    /// one lookup at a time. It does not replace the application's resolvers.
    init(_ target: any ResolvableTarget, _ registry: NameResolverRegistry, _ found: NameResolver) {
      switch target {
      case let target as ResolvableTargets.DNS:
        var others = registry
        let isStandard = others.removeFactory(ofType: NameResolvers.DNS.self)
        guard isStandard, !others.containsFactory(capableOfResolving: target) else {
          self = .resolver(found)
          return
        }
        self = .system(host: target.host, port: target.port ?? 443)
      case is ResolvableTargets.IPv4, is ResolvableTargets.IPv6,
        is ResolvableTargets.UnixDomainSocket, is ResolvableTargets.VirtualSocket:
        self = .fixed(found)
      default: self = .resolver(found)
      }
    }
  }

  private let source: Source
  private let logger: Logger?
  private let state = Mutex(State())

  init(_ source: Source, _ logger: Logger? = nil) {
    self.source = source
    self.logger = logger
  }

  /// The resolver that pushes its results, or `nil` if each attempt queries the resolver.
  private var teller: NameResolver? {
    switch self.source {
    case .resolver(let resolver), .fixed(let resolver):
      resolver.updateMode == .push ? resolver : nil
    case .system: nil
    }
  }

  /// Whether a lookup may depend on the network and the DNS servers.
  var needsNetwork: Bool {
    switch self.source {
    case .system(let host, _): IPAddress(host) == nil
    case .resolver: true
    case .fixed: false
    }
  }

  /// Listens to a resolver that pushes results until the task is cancelled. Returns immediately for
  /// any other resolver.
  func run() async {
    guard let teller = self.teller else { return }
    do {
      for try await result in teller.names { self.reported(.success(self.read(result))) }
    } catch {
      self.reported(.failure(error))
    }
  }

  private func reported(_ answer: Answer) {
    let waiters = self.state.withLock { state in
      state.reported = answer
      defer { state.waiters = [:] }
      return state.waiters
    }
    for waiter in waiters.values { waiter(answer) }
  }

  /// Returns a search for the addresses of all endpoints, in the order of the endpoints.
  func search() -> NameSearch {
    NameSearch { onAnswer in
      switch self.source {
      case .system(let host, let port):
        return LookupThreads.shared.start(host, port: port, onAnswer: onAnswer)
      case .resolver(let resolver) where resolver.updateMode == .push,
        .fixed(let resolver) where resolver.updateMode == .push:
        return self.listen(onAnswer)
      case .resolver(let resolver), .fixed(let resolver):
        // A resolver may ignore cancellation. Its late answer is dropped.
        let lookup = Task { onAnswer(await self.lookUp(resolver)) }
        return { lookup.cancel() }
      }
    }
  }

  private func listen(_ onAnswer: @escaping @Sendable (Answer) -> Void) -> NameSearch.Cancellation {
    let (reported, id) = self.state.withLock { state in
      state.lastWaiter += 1
      if state.reported == nil { state.waiters[state.lastWaiter] = onAnswer }
      return (state.reported, state.lastWaiter)
    }
    if let reported { onAnswer(reported) }
    return { [weak self] in _ = self?.state.withLock { $0.waiters.removeValue(forKey: id) } }
  }

  private func lookUp(_ resolver: NameResolver) async -> Answer {
    do {
      var names = resolver.names.makeAsyncIterator()
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
          "the service config that the resolver brings is not used, only the channel's own")
      }
    }
    return result.endpoints.flatMap(\.addresses)
  }
}
