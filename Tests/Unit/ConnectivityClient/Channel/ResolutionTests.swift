import Connectivity
import ConnectivityTestKit
import GRPCCore
import GRPCNIOTransportHTTP2Posix
import Synchronization
import Testing

@testable import ConnectivityClient
@testable import ConnectivityMonitor

/// The addresses of a channel's server.
@Suite("Resolution", .timeLimit(.minutes(5)), .namesWaits)
struct ResolutionTests {
  private typealias Address = GRPCNIOTransportHTTP2Posix.SocketAddress

  private static func result(_ addresses: Address...) -> NameResolutionResult {
    NameResolutionResult(endpoints: [Endpoint(addresses: addresses)], serviceConfig: nil)
  }

  @Test("C5 a resolver that does not answer in time fails the call")
  func silent() async throws {
    let (names, _) = AsyncStream.makeStream(of: NameResolutionResult.self)
    for mode in [NameResolver.UpdateMode.pull, .push] {
      let resolution = Resolution(
        .resolver(
          NameResolver(names: RPCAsyncSequence(wrapping: Throwing(names)), updateMode: mode)))
      let error = await #expect(throws: RPCError.self) {
        try await resolution.search().addresses(within: .milliseconds(20))
      }
      #expect(error?.code == .unavailable)
    }
  }

  @Test("C3 a pushed result applies until the next one")
  func push() async throws {
    let (names, name) = AsyncStream.makeStream(of: NameResolutionResult.self)
    let resolution = Resolution(
      .resolver(
        NameResolver(names: RPCAsyncSequence(wrapping: Throwing(names)), updateMode: .push)))
    let first = Address.ipv4(host: "192.0.2.1", port: 1)
    async let running: Void = resolution.run()
    async let early = resolution.search().addresses(within: .seconds(20))
    name.yield(Self.result(first))
    #expect(try await early == [first])
    for _ in 0..<2 {
      let addresses = try await resolution.search().addresses(within: .zero)
      #expect(addresses == [first])
    }
    name.finish()
    await running
  }

  @Test("C4 addresses of two families alternate, beginning with the first one's family")
  func families() {
    func four(_ port: Int) -> Address { .ipv4(host: "192.0.2.1", port: port) }
    func six(_ port: Int) -> Address { .ipv6(host: "2001:db8::1", port: port) }
    #expect(
      [six(1), six(2), six(3), four(4)].alternatingFamilies == [six(1), four(4), six(2), six(3)])
    #expect(
      [four(1), six(2), four(3), six(4)].alternatingFamilies == [four(1), six(2), four(3), six(4)])
    #expect([four(1), four(2)].alternatingFamilies == [four(1), four(2)])
    #expect([Address]().alternatingFamilies.isEmpty)
  }

  @Test(
    "C4 the first of several slow addresses to become ready is used, and the others are closed"
  )
  func firstReady() async throws {
    // They accept, and send nothing.
    let silent = try (0..<3).map { _ in try SilentListener() }
    try await EchoServer.serving { port, record in
      let pairs = silent.map { ("127.0.0.1", $0.port) } + [("127.0.0.1", port)]
      try await withChannel(to: .ipv4(pairs: pairs)) { client, transport in
        for _ in 0..<3 { _ = try await client.echo() }
        for listener in silent { try await listener.closed() }
        _ = try await client.echo()
        #expect(transport.connectivityState == .ready)
      }
      #expect(record.calls.count == 4)
    }
  }

  @Test("C4 an address that does not answer leaves time for the next")
  func blackHole() async throws {
    let silent = try SilentListener(backlog: 0)
    // The kernel accepts one connection beyond the backlog, and drops further ones.
    let filler = try SilentListener.connection(to: silent.port)
    try await EchoServer.serving { port, _ in
      let target = ResolvableTargets.IPv4.ipv4(
        pairs: [("127.0.0.1", silent.port), ("127.0.0.1", port)])
      try await withChannel(to: target) { client, _ in
        let answer = try await client.echo()
        #expect(answer == "hello")
      }
    }
    withExtendedLifetime(filler) {}
  }

  @Test(
    "C4 an unresolved name is resolved again when there is a path, or when the DNS servers change",
    arguments: [NetworkConditions.none, .wifi])
  func wayOut(first: NetworkConditions) async throws {
    try await withSimulatedNetwork(first) { network in
      try await EchoServer.serving { port, _ in
        var config = NetworkAwareTransport.Config.defaults
        config.socket = network.socket
        // The test never waits for that.
        config.backoff.initial = .seconds(3600)
        config.backoff.max = .seconds(3600)
        let names = FlakyName(.ipv4(host: "127.0.0.1", port: port))
        var registry = NameResolverRegistry()
        registry.registerFactory(names)
        let transport = try NetworkAwareTransport(
          target: names, transportSecurity: .plaintext, config: config, resolverRegistry: registry)
        try await withGRPCClient(transport: transport) { client in
          let call = Task { try await client.echo(options: .waiting) }
          // One for each family.
          try await network.waitForFlows(atLeast: 2)
          try await network.waitForSubscribers(atLeast: 1)
          try await takeTurns(until: "the first lookup") {
            names.lookups.load(ordering: .relaxed) > 0
          }
          names.isKnown.store(true, ordering: .relaxed)
          if first == .wifi {
            network.resolve(by: DNSSettings(search: ["lan"]))
          } else {
            network.become(.wifi)
          }
          let answer = try await call.value
          #expect(answer == "hello")
          // Only changes cause more lookups: one, or one for each family.
          #expect((2...3).contains(names.lookups.load(ordering: .relaxed)))
        }
      }
    }
  }

  /// Calls a server by a name, in a simulated network.
  private func calling(
    _ name: FlakyName, _ conditions: NetworkConditions,
    _ configure: (inout NetworkAwareTransport.Config) -> Void = { _ in },
    _ body: (SimulatedNetwork, GRPCClient<NetworkAwareTransport>) async throws -> Void
  ) async throws {
    try await withSimulatedNetwork(conditions) { network in
      var config = NetworkAwareTransport.Config.defaults
      config.socket = network.socket
      configure(&config)
      var registry = NameResolverRegistry()
      registry.registerFactory(name)
      let transport = try NetworkAwareTransport(
        target: name, transportSecurity: .plaintext, config: config, resolverRegistry: registry)
      try await withGRPCClient(transport: transport) { try await body(network, $0) }
    }
  }

  @Test("C5 a lookup after a change hangs → the last addresses of the name are tried beside it")
  func remembered() async throws {
    try await EchoServer.serving { port, _ in
      let name = FlakyName(.ipv4(host: "127.0.0.1", port: port))
      name.isKnown.store(true, ordering: .relaxed)
      try await self.calling(name, .wifi) { network, client in
        _ = try await client.echo(options: .waiting)
        try await network.waitForFlows(atLeast: 1)
        name.hangs.store(true, ordering: .relaxed)
        network.become(.cellular)
        // Until the channel receives the change, calls use the old connection.
        repeat {
          _ = try? await client.echo(options: .waiting)
        } while name.lookups.load(ordering: .relaxed) == 1
        let answer = try await client.echo(options: .waiting)
        #expect(answer == "hello")
      }
    }
  }

  @Test("C4 no path exists while a name is looked up → the waiting caller receives the path")
  func withoutPath() async throws {
    let waits = PathWaits()
    let name = FlakyName(.ipv4(host: "127.0.0.1", port: 1))
    name.hangs.store(true, ordering: .relaxed)
    try await self.calling(name, .none) {
      $0.calls.onWait = waits.add
    } _: { _, client in
      let call = Task { try await client.echo(options: .waiting) }
      var told = waits.stream.makeAsyncIterator()
      await #expect(told.next() == "unsatisfied nothing")
      call.cancel()
    }
  }
}

/// A sequence whose type allows it to throw.
private struct Throwing<Base: AsyncSequence & Sendable>: AsyncSequence, Sendable
where Base.Element: Sendable {
  let base: Base

  init(_ base: Base) { self.base = base }

  func makeAsyncIterator() -> AsyncThrowingStream<Base.Element, any Error>.AsyncIterator {
    let (stream, continuation) = AsyncThrowingStream.makeStream(of: Base.Element.self)
    let task = Task {
      do {
        for try await element in self.base { continuation.yield(element) }
        continuation.finish()
      } catch {
        continuation.finish(throwing: error)
      }
    }
    continuation.onTermination = { _ in task.cancel() }
    return stream.makeAsyncIterator()
  }
}

/// A name that is known only sometimes, and its resolver.
private final class FlakyName: ResolvableTarget, NameResolverFactory, Sendable {
  typealias Target = FlakyName
  let isKnown = Atomic(false)
  let hangs = Atomic(false)
  let lookups = Atomic(0)
  private let address: GRPCNIOTransportHTTP2Posix.SocketAddress

  init(_ address: GRPCNIOTransportHTTP2Posix.SocketAddress) { self.address = address }

  func resolver(for target: FlakyName) -> NameResolver {
    NameResolver(names: RPCAsyncSequence(wrapping: Names(name: self)), updateMode: .pull)
  }

  private struct Names: AsyncSequence, AsyncIteratorProtocol, Sendable {
    let name: FlakyName

    func makeAsyncIterator() -> Names { self }

    func next() async throws -> NameResolutionResult? {
      // The name may become known as soon as the lookup is counted.
      let isKnown = self.name.isKnown.load(ordering: .sequentiallyConsistent)
      self.name.lookups.add(1, ordering: .sequentiallyConsistent)
      if self.name.hangs.load(ordering: .relaxed) {
        // Until the lookup is cancelled.
        let (answers, answer) = AsyncStream.makeStream(of: Never.self)
        for await _ in answers {}
        withExtendedLifetime(answer) {}
      }
      guard isKnown else {
        throw RPCError(code: .unavailable, message: "no such name")
      }
      return NameResolutionResult(
        endpoints: [Endpoint(addresses: [self.name.address])], serviceConfig: nil)
    }

    func next(isolation: isolated (any Actor)?) async throws -> NameResolutionResult? {
      try await self.next()
    }
  }
}
