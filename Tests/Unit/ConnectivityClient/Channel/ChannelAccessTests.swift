import Connectivity
import ConnectivityClient
import ConnectivityTestKit
import GRPCCore
import GRPCNIOTransportHTTP2Posix
import Testing

/// The networks that a channel or a call may use.
@Suite("Restricted channels", .timeLimit(.minutes(5)), .namesWaits)
struct ChannelAccessTests {
  @Test("C8 in low-data mode, one expression falls back to a smaller request")
  func constrainedCall() async throws {
    try await playingNetwork { network, client, _, record in
      network.become(.wifi.constrained())
      let answer = try await withFallback(on: [.constrained]) {
        try await client.echo(EchoServer.get, "large")
      } fallback: { reason in
        try await client.echo(EchoServer.get, "small, for it is \(reason.rawValue)")
      }
      #expect(answer == "small, for it is constrained")
      #expect(record.calls == ["Get"])
    }
  }

  @Test(
    "C8 a channel that may not use the path fails calls immediately, with the reason",
    arguments: [
      (NetworkAccess(allowsExpensiveAccess: false), .cellular, .expensive),
      (NetworkAccess(prohibitedMedia: [.cellular]), .cellular, .cellular),
      (NetworkAccess(prohibitedMedia: [.wifi]), .wifi, .wifi),
      (NetworkAccess(allowsConstrainedAccess: false), .wifi.constrained(), .constrained),
    ] as [(NetworkAccess, NetworkConditions, NetworkUnavailableError.Reason)])
  func forbidden(
    access: NetworkAccess, conditions: NetworkConditions, reason: NetworkUnavailableError.Reason
  ) async throws {
    try await playingNetwork {
      $0.access = access
    } _: { network, client, _, record in
      network.become(conditions)
      for _ in 0..<2 {
        let error = try await failure { try await client.echo() }
        #expect(error?.code == .unavailable)
        #expect(error?.networkUnavailableReason == reason)
      }
      network.become(.wired)
      let answer = try await client.echo()
      #expect(answer == "hello")
      #expect(record.calls == ["Get"])
    }
  }

  @Test("C8 one call may be stricter than its channel")
  func forbiddenCall() async throws {
    try await playingNetwork { network, client, _, record in
      network.become(.cellular)
      let answer = try await withFallback(on: [.expensive]) {
        try await client.echo(EchoServer.get, "large")
      } fallback: { _ in
        try await client.echo(EchoServer.get, "small")
      }
      #expect(answer == "small")
      #expect(record.calls == ["Get"])
    }
  }

  @Test(
    "C8 C6 a refused call is not retried, whatever its policy, so that the fallback need not wait")
  func refusedOnce() async throws {
    try await playingNetwork { network, client, _, record in
      network.become(.cellular)
      var options = CallOptions.defaults
      options.executionPolicy = .retry(
        RetryPolicy(
          maxAttempts: 5, initialBackoff: .seconds(3_600), maxBackoff: .seconds(3_600),
          backoffMultiplier: 1, retryableStatusCodes: [.unavailable]))
      let answer = try await withFallback(on: [.expensive]) { [options] in
        try await client.echo(EchoServer.get, "large", options: options)
      } fallback: { [options] _ in
        try await client.echo(EchoServer.get, "small", options: options)
      }
      #expect(answer == "small")
      #expect(record.calls == ["Get"])
    }
  }

  /// Runs `body` with a client of a channel to a port, on an expensive network.
  private func onCellular(
    port: Int,
    _ body:
      @escaping @Sendable (GRPCClient<NetworkAwareTransport>, NetworkAwareTransport) async throws ->
      Void
  ) async throws {
    try await withSimulatedNetwork(.cellular, clock: StoppedClock()) { network in
      var config = NetworkAwareTransport.Config.defaults
      config.socket = network.socket
      try await withChannel(
        to: .ipv4(address: "127.0.0.1", port: port), config: config, body)
    }
  }

  private static let inexpensive = NetworkAccess(allowsExpensiveAccess: false)

  @Test(
    "C8 a call that may not use the path is refused before anything is sent, and its place is free for another",
    arguments: [false, true])
  func refusedBefore(waitsForReady: Bool) async throws {
    let listener = try SilentListener()
    try await self.onCellular(port: listener.port) { client, _ in
      var options = CallOptions.defaults
      options.waitForReady = waitsForReady
      for _ in 0..<2 {
        let answer = try await withFallback(on: [.expensive]) { [options] in
          try await client.echo(options: options)
        } fallback: { reason in
          reason.rawValue
        }
        #expect(answer == "expensive")
      }
      #expect(!listener.isConnected)
    }
  }

  @Test("C8 the call is over → nothing is sent for it if the path might be forbidden")
  func overBefore() async throws {
    let listener = try SilentListener()
    try await withSimulatedNetwork(.cellular, clock: StoppedClock()) { network in
      network.delaysFlows = true
      var config = NetworkAwareTransport.Config.defaults
      config.socket = network.socket
      try await withChannel(
        to: .ipv4(address: "127.0.0.1", port: listener.port), config: config
      ) { client, transport in
        let error = try await failure {
          try await withCallSettings {
            $0.access = Self.inexpensive
            $0.timeLimit = .timeout(.milliseconds(50))
          } operation: {
            try await client.echo()
          }
        }
        #expect(error?.code == .deadlineExceeded)
        network.delaysFlows = false
        for await state in transport.connectivityStates where state == .transientFailure { break }
        #expect(!listener.isConnected)
      }
    }
  }

  @Test("C8 calls wait together → the ones that may not use the path fail, the others go out")
  func together() async throws {
    try await EchoServer.serving { port, record in
      for _ in 0..<20 {
        try await self.onCellular(port: port) { client, _ in
          async let first = failure {
            try await withCallSettings({ $0.access = Self.inexpensive }) { try await client.echo() }
          }
          async let second = client.echo()
          async let third = failure {
            try await withCallSettings({ $0.access = Self.inexpensive }) { try await client.echo() }
          }
          let answer = try await second
          #expect(answer == "hello")
          for error in try await [first, third] {
            #expect(error?.networkUnavailableReason == .expensive)
          }
        }
      }
      #expect(record.calls.count == 20)
    }
  }

  @Test(
    "C8 C7 connd is away → a channel that refuses an unknown network sends nothing until it is back"
  )
  func unknown() async throws {
    try await playingNetwork {
      $0.access = NetworkAccess(allowsExpensiveAccess: false, whenUnknown: .refuse)
    } _: { network, client, transport, record in
      await network.stop()
      let error = try await failure { try await client.echo() }
      #expect(error?.code == .unavailable)
      #expect(error?.networkUnavailableReason == .unknown)
      var options = CallOptions.defaults
      options.waitForReady = true
      async let patient = client.echo(options: options)
      for await state in transport.connectivityStates where state == .transientFailure { break }
      #expect(record.streams == 0)
      try await network.start()
      let answer = try await patient
      #expect(answer == "hello")
    }
  }

  @Test("C8 C7 connd is away → one call may refuse an unknown network that its channel uses")
  func unknownCall() async throws {
    try await playingNetwork { network, client, _, record in
      await network.stop()
      for _ in 0..<2 {
        let error = try await failure {
          try await withCallSettings {
            $0.access = NetworkAccess(prohibitedMedia: [.cellular], whenUnknown: .refuse)
          } operation: {
            try await client.echo()
          }
        }
        #expect(error?.networkUnavailableReason == .unknown)
        // The second time on a ready connection.
        _ = try await client.echo()
      }
      #expect(record.calls == ["Get", "Get"])
    }
  }

  @Test("C8 a call to loopback, which needs no network → it goes out although connd is away")
  func loopback() async throws {
    try await EchoServer.serving { port, _ in
      let config = NetworkAwareTransport.Config.defaults {
        $0.socket = "/nonexistent/connd.sock"
        $0.access = NetworkAccess(allowsExpensiveAccess: false, whenUnknown: .refuse)
      }
      try await withChannel(to: .ipv4(address: "127.0.0.1", port: port), config: config) {
        client, _ in
        let answer = try await client.echo()
        #expect(answer == "hello")
      }
    }
  }

  @Test(
    "C8 a call that may not use the path gets that reason, even if the connection fails for others")
  func besideFailure() async throws {
    let closed = try SilentListener(isListening: false)
    for _ in 0..<20 {
      try await self.onCellular(port: closed.port) { client, _ in
        async let plain = failure { try await client.echo() }
        async let refused = failure {
          try await withCallSettings({ $0.access = Self.inexpensive }) { try await client.echo() }
        }
        let errors = try await [plain, refused]
        #expect(errors.map { $0?.code } == [.unavailable, .unavailable])
        #expect(errors.map { $0?.networkUnavailableReason } == [nil, .expensive])
      }
    }
  }

  @Test(
    "C8 a restricted call waits for a slow connd to name the network")
  func slow() async throws {
    try await playingNetwork { network, client, _, record in
      network.become(.cellular)
      network.delaysFlows = true
      // Unrestricted calls wait only briefly.
      _ = try await client.echo()
      let call = Task {
        try await failure {
          try await withCallSettings({ $0.access = NetworkAccess(allowsExpensiveAccess: false) }) {
            try await client.echo()
          }
        }
      }
      // Nothing reports that it waits. On a machine under load even a few turns take seconds, and
      // it waits for five.
      for _ in 0..<3 { await Task.yield() }
      network.delaysFlows = false
      let error = try await call.value
      #expect(error?.networkUnavailableReason == .expensive)
      #expect(record.calls == ["Get"])
    }
  }

  @Test(
    "C8 I8 a channel's path becomes forbidden → the channel is invalidated",
    arguments: [
      (NetworkAccess(allowsExpensiveAccess: false), .wifi.expensive(), .expensive),
      (NetworkAccess(allowsConstrainedAccess: false), .wifi.constrained(), .constrained),
    ] as [(NetworkAccess, NetworkConditions, NetworkUnavailableError.Reason)])
  func becomesForbidden(
    access: NetworkAccess, conditions: NetworkConditions, reason: NetworkUnavailableError.Reason
  ) async throws {
    try await playingNetwork {
      $0.access = access
    } _: { network, client, _, record in
      let call = try await hangingCall(client, record)
      try await network.waitForFlows(atLeast: 1)
      network.become(conditions)
      let error = try await call.value
      #expect(error?.invalidation?.reason == .policy)
      #expect(error?.networkUnavailableReason == reason)
    }
  }
}
