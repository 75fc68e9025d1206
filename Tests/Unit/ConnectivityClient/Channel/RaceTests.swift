import ConnectivityClient
import ConnectivityTestKit
import GRPCCore
import GRPCNIOTransportHTTP2Posix
import Synchronization
import Testing

private final class Flag: Sendable {
  private let value = Atomic(false)

  var isSet: Bool { self.value.load(ordering: .relaxed) }

  func set() { self.value.store(true, ordering: .relaxed) }
}

/// Changes of the network in the middle of everything else, a thousand of each.
@Suite("Races between channels and the network", .timeLimit(.minutes(20)), .namesWaits)
struct RaceTests {
  private static let rounds = 1000
  /// One after the other.
  private static let networks: [NetworkConditions] = [.wifi, .cellular, .wired]

  /// Calls until one is answered. Calls may end only because the network did. A change ends at most
  /// two of them: the one in flight, and one on a connection made before the change was known.
  private func answered(
    _ client: GRPCClient<NetworkAwareTransport>, _ text: String
  ) async throws {
    for _ in 0..<3 {
      let error = try await failure {
        let answer = try await client.echo(EchoServer.get, text)
        #expect(answer == text)
      }
      guard let error else { return }
      #expect(error.code == .unavailable)
      #expect(error.invalidation != nil, "\(error)")
    }
    Issue.record("no call was answered after a change")
  }

  private func racing(
    _ serverSecurity: HTTP2ServerTransport.Posix.TransportSecurity = .plaintext,
    _ body:
      @escaping @Sendable (
        SimulatedNetwork, _ port: Int, NetworkAwareTransport.Config
      ) async throws -> Void
  ) async throws {
    try await withSimulatedNetwork(.wifi) { network in
      try await EchoServer.serving(security: serverSecurity) { port, _ in
        var config = NetworkAwareTransport.Config.defaults
        config.socket = network.socket
        try await body(network, port, config)
      }
    }
  }

  @Test(
    "C3 a change while a connection is being made, with TLS and HTTP/2: the call goes out, or gets the reason",
    arguments: [false, true])
  func connecting(tls: Bool) async throws {
    try await self.racing(tls ? Certificate.server : .plaintext) { network, port, config in
      try await withChannel(
        to: .ipv4(address: "127.0.0.1", port: port),
        security: tls ? Certificate.client : .plaintext, config: config
      ) { client, _ in
        for round in 0..<Self.rounds {
          async let call: Void = self.answered(client, "\(round)")
          // The last change has closed the connection: this one meets the next change at some point
          // of its setup.
          for _ in 0..<(round % 50) { await Task.yield() }
          network.become(Self.networks[round % 3])
          try await call
        }
      }
    }
  }

  @Test("C2 a change while calls complete: each is answered, or gets the reason")
  func completing() async throws {
    try await self.racing { network, port, config in
      try await withChannel(to: .ipv4(address: "127.0.0.1", port: port), config: config) {
        client, _ in
        let isOver = Flag()
        try await withThrowingTaskGroup(of: Void.self) { group in
          for caller in 0..<4 {
            group.addTask {
              while !isOver.isSet {
                try Task.checkCancellation()
                let error = try await failure {
                  let answer = try await client.echo(EchoServer.get, "\(caller)")
                  #expect(answer == "\(caller)")
                }
                guard let error else { continue }
                #expect(error.code == .unavailable)
                #expect(error.invalidation != nil, "\(error)")
              }
            }
          }
          for round in 0..<Self.rounds {
            network.become(Self.networks[round % 3])
            // Until a call succeeds.
            try await self.answered(client, "\(round)")
          }
          isOver.set()
          try await group.waitForAll()
        }
      }
    }
  }

  @Test("a change during the shutdown: the channel and its calls end")
  func shutdown() async throws {
    try await self.racing { network, port, config in
      for round in 0..<Self.rounds {
        try Task.checkCancellation()
        let (states, state) = AsyncStream.makeStream(of: ConnectivityState.self)
        var config = config
        config.onConnectivityStateChange = { state.yield($0) }
        let transport = try NetworkAwareTransport(
          target: .ipv4(address: "127.0.0.1", port: port), transportSecurity: .plaintext,
          config: config)
        let client = GRPCClient(transport: transport)
        async let running: Void = client.runConnections()
        // A call that waits for the connection, or one that uses it.
        async let first = try? client.echo()
        // The channel runs: a client stopped earlier does not tell its transport, and the call
        // would wait forever (GRPCClient.beginGracefulShutdown).
        for await _ in states { break }
        if round % 2 == 0 { _ = await first }
        for _ in 0..<(round % 50) { await Task.yield() }
        async let call = try? client.echo(EchoServer.get, "\(round)")
        network.become(Self.networks[round % 3])
        client.beginGracefulShutdown()
        _ = await call
        _ = await first
        try await running
        #expect(transport.connectivityState == .shutdown)
      }
    }
  }

  @Test("C3 channels that are cancelled while they connect end, and their calls too")
  func cancelled() async throws {
    try await self.racing { network, port, config in
      for _ in 0..<Self.rounds / 20 {
        try await withThrowingTaskGroup(of: Void.self) { channels in
          for _ in 0..<20 {
            channels.addTask {
              await #expect(throws: (any Error).self) {
                try await withChannel(
                  to: .ipv4(address: "127.0.0.1", port: port), config: config
                ) { client, _ in try await client.echo(EchoServer.hang) }
              }
            }
          }
          // Each knows its path now, and begins to connect.
          try await network.waitForFlows(atLeast: 20)
          channels.cancelAll()
        }
        try await takeTurns(until: "no guarded flow") { network.guardedFlows.isEmpty }
      }
    }
  }

  @Test("C9 calls that begin as the idle timeout closes the connection are answered")
  func idle() async throws {
    try await self.racing { network, port, config in
      var config = config
      // A connection without a call is closed at each check, once in a millisecond.
      config.connection.maxIdleTime = .nanoseconds(1)
      try await withChannel(to: .ipv4(address: "127.0.0.1", port: port), config: config) {
        client, transport in
        for round in 0..<Self.rounds {
          let answer = try await client.echo(EchoServer.get, "\(round)")
          #expect(answer == "\(round)")
          // The next call begins before the timeout, at it, and when the connection is closed.
          if round % 2 == 0 {
            for _ in 0..<(round % 50) { await Task.yield() }
          } else {
            try await takeTurns(until: "the idle timeout") {
              transport.connectivityState != .ready
            }
          }
        }
      }
    }
  }
}
