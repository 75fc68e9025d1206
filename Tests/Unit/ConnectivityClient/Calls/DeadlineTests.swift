import GRPCCore
import GRPCNIOTransportHTTP2Posix
import Testing

@testable import ConnectivityClient
@testable import ConnectivityMonitor

/// The maximum duration of a call, waiting included.
@Suite("Call deadlines", .timeLimit(.minutes(5)), .namesWaits)
struct DeadlineTests {
  private static var config: NetworkAwareTransport.Config { PlainChannelTests.config }

  private static let policies: [RPCExecutionPolicy?] = [
    nil,
    .retry(
      RetryPolicy(
        maxAttempts: 3, initialBackoff: .milliseconds(10), maxBackoff: .seconds(1),
        backoffMultiplier: 2, retryableStatusCodes: [.unavailable])),
    .hedge(HedgingPolicy(maxAttempts: 3, hedgingDelay: .milliseconds(10), nonFatalStatusCodes: [])),
  ]

  @Test("C4 a call's deadline also applies while it waits for the backoff")
  func deadlineInBackoff() async throws {
    var config = Self.config
    config.backoff.initial = .seconds(3600)
    config.backoff.max = .seconds(3600)
    let nobody = try SilentListener(isListening: false)
    try await withChannel(to: .ipv4(address: "127.0.0.1", port: nobody.port), config: config) {
      client, transport in
      let first = try await failure { try await client.echo() }
      #expect(first?.code == .unavailable)
      var options = CallOptions.defaults
      options.timeout = .milliseconds(50)
      let second = try await failure { [options] in try await client.echo(options: options) }
      #expect(second?.code == .deadlineExceeded)
      #expect(transport.connectivityState == .transientFailure)
    }
  }

  @Test("C9 a time limit ends the call with DEADLINE_EXCEEDED")
  func deadline() async throws {
    try await EchoServer.serving { port, _ in
      var config = Self.config
      config.calls.timeLimit = .timeout(.milliseconds(50))
      try await withChannel(to: .ipv4(address: "127.0.0.1", port: port), config: config) {
        client, _ in
        let error = try await failure { try await client.echo(EchoServer.hang) }
        #expect(error?.code == .deadlineExceeded)
        let past = try await failure {
          try await withCallSettings {
            $0.timeLimit = .deadline(.now - .seconds(1))
          } operation: {
            try await client.echo(EchoServer.hang)
          }
        }
        #expect(past?.code == .deadlineExceeded)
      }
    }
  }

  @Test("C4 a call that waits for a connection keeps its deadline")
  func deadlineWhileConnecting() async throws {
    // It accepts, and never sends anything.
    let listener = try SilentListener()
    try await withChannel(to: .ipv4(address: "127.0.0.1", port: listener.port), config: Self.config)
    {
      client, transport in
      var options = CallOptions.defaults
      options.timeout = .milliseconds(50)
      let error = try await failure { [options] in try await client.echo(options: options) }
      #expect(error?.code == .deadlineExceeded)
      #expect(transport.connectivityState == .connecting)
    }
  }

  @Test(
    "C4 a waiting call keeps its deadline, whatever its execution policy",
    arguments: 0..<3, [false, true])
  func deadlineWithPolicy(policy: Int, waitsForReady: Bool) async throws {
    let silent = try SilentListener()
    try await withChannel(to: .ipv4(address: "127.0.0.1", port: silent.port), config: Self.config) {
      client, transport in
      var options = CallOptions.defaults
      options.executionPolicy = Self.policies[policy]
      options.waitForReady = waitsForReady
      options.timeout = .milliseconds(50)
      let error = try await failure { [options] in try await client.echo(options: options) }
      #expect(error?.code == .deadlineExceeded)
      #expect(transport.connectivityState == .connecting)
    }
  }

  @Test("C4 of two time limits, the more specific one applies")
  func methodTimeout() async throws {
    let silent = try SilentListener()
    let name = MethodConfig.Name(service: "", method: "")
    let method = MethodConfig(names: [name], timeout: .milliseconds(50))
    var config = Self.config
    config.calls.timeLimit = .timeout(.seconds(1000))
    try await withChannel(
      to: .ipv4(address: "127.0.0.1", port: silent.port), config: config,
      serviceConfig: ServiceConfig(methodConfig: [method])
    ) { client, transport in
      let error = try await failure { try await client.echo() }
      #expect(error?.code == .deadlineExceeded)
      let descriptor = MethodDescriptor(fullyQualifiedService: "any", method: "any")
      #expect(transport.config(forMethod: descriptor)?.timeout == .milliseconds(50))
      await withCallSettings {
        $0.timeLimit = .timeout(.seconds(7))
      } operation: {
        #expect(transport.config(forMethod: descriptor)?.timeout == .seconds(7))
      }
    }
  }

  @Test("calls cancelled while they wait end as cancelled")
  func cancelled() async throws {
    let listener = try SilentListener()
    try await withChannel(to: .ipv4(address: "127.0.0.1", port: listener.port), config: Self.config)
    {
      client, _ in
      let call = Task { try await client.echo() }
      try await listener.accepted()
      call.cancel()
      await #expect(throws: (any Error).self) { try await call.value }
    }
  }
}
