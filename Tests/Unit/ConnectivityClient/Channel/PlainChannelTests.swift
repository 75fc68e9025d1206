import GRPCCore
import GRPCNIOTransportHTTP2Posix
import NIOCore
import Synchronization
import TestKit
import Testing

@testable import ConnectivityClient
@testable import ConnectivityMonitor

/// Channels without connd are plain ones.
@Suite("Channels without connd", .timeLimit(.minutes(5)), .namesWaits)
struct PlainChannelTests {
  static var config: NetworkAwareTransport.Config {
    .defaults { $0.socket = "/nonexistent/connd.sock" }
  }

  @Test("C7 without connd calls work, and the server sees nothing else")
  func calls() async throws {
    try await EchoServer.serving { port, record in
      var config = Self.config
      config.socket.guardsLoopback = true
      try await withChannel(to: .ipv4(address: "127.0.0.1", port: port), config: config) {
        client, transport in
        #expect(transport.connectivityState == .idle)
        for _ in 0..<3 {
          let answer = try await client.echo()
          #expect(answer == "hello")
        }
        #expect(transport.connectivityState == .ready)
      }
      #expect(record.calls == ["Get", "Get", "Get"])
    }
  }

  @Test("C1 the connection is made when the first call starts, and kept for later ones")
  func connection() async throws {
    let states = Mutex<[ConnectivityState]>([])
    try await EchoServer.serving { port, _ in
      var config = Self.config
      config.onConnectivityStateChange = { state in states.withLock { $0.append(state) } }
      try await withChannel(to: .ipv4(address: "127.0.0.1", port: port), config: config) {
        client, transport in
        for _ in 0..<3 { _ = try await client.echo() }
        try await withThrowingTaskGroup(of: String.self) { group in
          for number in 0..<50 {
            group.addTask { try await client.echo(EchoServer.get, "\(number)") }
          }
          let answers = try await group.reduce(into: Set()) { $0.insert($1) }
          #expect(answers.count == 50)
        }
      }
    }
    #expect(states.withLock { $0 } == [.connecting, .ready, .shutdown])
  }

  @Test("C4 a server refuses the connection → the call fails with UNAVAILABLE and the error's text")
  func refused() async throws {
    // No server listens there.
    let port = 20_771
    try await withChannel(to: .ipv4(address: "127.7.7.1", port: port), config: Self.config) {
      client, transport in
      let error = try #require(try await failure { try await client.echo() })
      #expect(error.code == .unavailable)
      #expect("\(error)".contains("refused"))
      #expect(transport.connectivityState == .transientFailure)
    }
  }

  @Test("C5 a name cannot be resolved → the call fails immediately, with the resolver's error")
  func resolution() async throws {
    try await withChannel(to: .dns(host: "nothing.invalid", port: 1), config: Self.config) {
      client, _ in
      for _ in 0..<2 {
        let error = try #require(try await failure { try await client.echo() })
        #expect(error.code == .unavailable)
        #expect(error.message.contains("nothing.invalid"))
      }
    }
  }

  @Test("a call that the server ends with UNAVAILABLE has the server's message")
  func unavailable() async throws {
    try await EchoServer.serving { port, record in
      try await withChannel(to: .ipv4(address: "127.0.0.1", port: port), config: Self.config) {
        client, _ in
        let error = try #require(
          try await failure { try await client.echo(EchoServer.unavailable) })
        #expect(error.code == .unavailable)
        #expect(error.message == "closed on Sundays")
        #expect(error.invalidation == nil)
        // The call is not repeated automatically.
        #expect(record.calls == ["Unavailable"])
      }
    }
  }

  @Test(
    "C9 the reason for a failed connection is in the channel's background log")
  func loggedFailure() async throws {
    let log = LogRecorder()
    var config = Self.config
    config.backgroundActivityLogger = log.logger
    let nobody = try SilentListener(isListening: false)
    try await withChannel(to: .ipv4(address: "127.0.0.1", port: nobody.port), config: config) {
      client, _ in
      _ = try await failure { try await client.echo() }
    }
    #expect(log.lines.contains { $0.contains("could not connect") && $0.contains("refused") })
    let states = log.lines.filter { $0.contains("connectivity state changed") }
    #expect(
      states.map { $0.split(separator: "=").last } == [
        "connecting", "transientFailure", "shutdown",
      ])
  }

  @Test("C9 one call may be compressed on a channel without compression")
  func compressedCall() async throws {
    try await EchoServer.serving { port, record in
      var config = Self.config
      config.compression.enabledAlgorithms = [.gzip]
      try await withChannel(to: .ipv4(address: "127.0.0.1", port: port), config: config) {
        client, _ in
        var options = CallOptions.defaults
        options.compression = .gzip
        _ = try await client.echo()
        let answer = try await client.echo(options: options)
        #expect(answer == "hello")
        _ = try await client.echo()
      }
      let encodings = record.metadata.map { Array($0[stringValues: "grpc-encoding"]) }
      #expect(encodings == [[], ["gzip"], []])
    }
  }

  @Test("C9 a call accepts fewer algorithms than its channel → the server learns of these only")
  func acceptedCompression() async throws {
    try await EchoServer.serving { port, record in
      var config = Self.config
      config.compression.enabledAlgorithms = [.gzip, .deflate]
      try await withChannel(to: .ipv4(address: "127.0.0.1", port: port), config: config) {
        client, _ in
        _ = try await client.echo()
        for accepted in [[.gzip], .none] as [CompressionAlgorithmSet] {
          try await withCallSettings {
            $0.acceptedCompression = accepted
          } operation: {
            _ = try await client.echo()
          }
        }
      }
      let offers = record.metadata.map { Set($0[stringValues: "grpc-accept-encoding"]) }
      #expect(offers == [["gzip", "deflate"], ["gzip"], []])
      #expect(
        record.metadata.allSatisfy { Array($0[stringValues: "connd-response-sizes"]).isEmpty })
    }
  }

  @Test("C9 one call has a smaller limit than its channel → only it fails")
  func decompressionLimit() async throws {
    try await EchoServer.serving { port, _ in
      var config = Self.config
      config.compression = .init(algorithm: .gzip, enabledAlgorithms: [.gzip])
      try await withChannel(to: .ipv4(address: "127.0.0.1", port: port), config: config) {
        client, _ in
        let text = String(repeating: "a", count: 10_000)
        let error = try await failure {
          try await withCallSettings {
            $0.decompressionLimit = .absolute(1_000)
          } operation: {
            try await client.echo(EchoServer.get, text)
          }
        }
        #expect(error?.code == .resourceExhausted)
        let answer = try await client.echo(EchoServer.get, text)
        #expect(answer == text)
      }
    }
  }

  @Test("C9 the state observer is called by one task at a time, in order")
  func observedInTurn() async throws {
    let inside = Mutex(0)
    let seen = Mutex<[ConnectivityState]>([])
    var config = Self.config
    config.connection.maxIdleTime = .milliseconds(1)
    config.onConnectivityStateChange = { state in
      #expect(
        inside.withLock {
          $0 += 1; return $0
        } == 1)
      seen.withLock { $0.append(state) }
      // Gives another task time to collide here.
      for _ in 0..<1000 { _ = inside.withLock { $0 } }
      inside.withLock { $0 -= 1 }
    }
    try await EchoServer.serving { [config] port, _ in
      try await withChannel(to: .ipv4(address: "127.0.0.1", port: port), config: config) {
        client, _ in
        for _ in 0..<50 { _ = try await client.echo() }
      }
    }
    let states = seen.withLock { $0 }
    #expect(states.first == .connecting && states.last == .shutdown)
    for (state, next) in zip(states, states.dropFirst()) {
      switch state {
      case .connecting: #expect(next == .ready)
      case .ready: #expect(next == .idle || next == .shutdown)
      case .idle: #expect(next == .connecting || next == .shutdown)
      case .transientFailure, .shutdown: Issue.record("\(state) before \(next)")
      }
    }
  }

  @Test("C9 a connection without calls is closed after the idle timeout, one with a call is not")
  func idle() async throws {
    #expect(Self.config.connection.maxIdleTime == .seconds(300))
    try await EchoServer.serving { port, record in
      let target = ResolvableTargets.IPv4.ipv4(address: "127.0.0.1", port: port)
      var config = Self.config
      config.connection.maxIdleTime = .milliseconds(500)
      try await withChannel(to: target, config: config) { [config] client, busy in
        let call = Task { try await failure { try await client.echo(EchoServer.hang) } }
        try await record.reach(1)
        // Another channel becomes idle twice in that time.
        let (states, state) = AsyncStream.makeStream(of: ConnectivityState.self)
        let (ends, end) = AsyncStream.makeStream(of: Void.self)
        var other = config
        other.onConnectivityStateChange = { state.yield($0) }
        other.channelDebuggingCallbacks.onCreateTCPConnection = { channel in
          channel.closeFuture.whenComplete { _ in end.yield() }
          return channel.eventLoop.makeSucceededVoidFuture()
        }
        try await withChannel(to: target, config: other) { client, _ in
          for _ in 0..<2 {
            _ = try await client.echo()
            for await state in states where state == .idle { break }
            // Not only the state: its socket is closed, while the channel lives.
            for await _ in ends { break }
          }
        }
        #expect(busy.connectivityState == .ready)
        call.cancel()
        _ = try await call.value
      }
    }
  }

  @Test(
    "C9 of the load balancing policies pick-first is supported, and asking only for others is an error"
  )
  func loadBalancing() async throws {
    func channel(_ policies: [ServiceConfig.LoadBalancingConfig]) throws {
      _ = try NetworkAwareTransport(
        target: .ipv4(address: "127.0.0.1", port: 1), transportSecurity: .plaintext,
        serviceConfig: ServiceConfig(loadBalancingConfig: policies))
    }
    let error = #expect(throws: RuntimeError.self) { try channel([.roundRobin]) }
    #expect(error?.message.contains("pick-first") == true)
    // The first supported policy is used (gRPC's service config document).
    try channel([.roundRobin, .pickFirst(shuffleAddressList: false)])
    try channel([])
  }

  @Test("C9 addresses are shuffled if the service config says so", arguments: [false, true])
  func shuffled(shuffles: Bool) async throws {
    let balancing = ServiceConfig(
      loadBalancingConfig: [.pickFirst(shuffleAddressList: shuffles)])
    try await EchoServer.serving { first, firstRecord in
      try await EchoServer.serving { second, secondRecord in
        let target = ResolvableTargets.IPv4.ipv4(
          pairs: [("127.0.0.1", first), ("127.0.0.1", second)])
        for _ in 0..<40 {
          try await withChannel(to: target, serviceConfig: balancing) { client, _ in
            _ = try await client.echo()
          }
        }
        #expect(firstRecord.calls.count + secondRecord.calls.count == 40)
        #expect(secondRecord.calls.isEmpty == !shuffles)
        #expect(!firstRecord.calls.isEmpty)
      }
    }
  }

  @Test("C9 keepalive and backoff reach the connection")
  func keepalive() {
    var config = Self.config
    config.connection.keepalive = .init(
      time: .seconds(30), timeout: .seconds(10), allowWithoutCalls: true)
    config.backoff.initial = .seconds(7)
    let one = HTTP2ClientTransport.Posix.Config(config, callbacks: .defaults)
    #expect(one.connection.keepalive == config.connection.keepalive)
    #expect(one.backoff == config.backoff)
    #expect(Self.config.connection.keepalive == nil)
  }

  @Test(
    "C9 responses are compressed if the channel accepts it, up to its limit",
    arguments: [
      (nil, nil), (.ratio(20), .resourceExhausted), (.ratio(100_000), nil),
      (.absolute(1000), .resourceExhausted), (.absolute(1_000_000), nil),
    ] as [(DecompressionLimit?, RPCError.Code?)])
  func compression(limit: DecompressionLimit?, code: RPCError.Code?) async throws {
    try await EchoServer.serving { port, record in
      var config = Self.config
      config.compression = .init(algorithm: .gzip, enabledAlgorithms: [.gzip])
      config.calls.decompressionLimit = limit
      try await withChannel(to: .ipv4(address: "127.0.0.1", port: port), config: config) {
        client, _ in
        let text = String(repeating: "a", count: 100_000)
        let error = try await failure {
          let answer = try await client.echo(EchoServer.get, text)
          #expect(answer == text)
        }
        #expect(error?.code == code)
        let metadata = try #require(record.metadata.first)
        #expect(Array(metadata[stringValues: "grpc-encoding"]) == ["gzip"])
        #expect(Array(metadata[stringValues: DecompressionGuard.key]).isEmpty)
      }
    }
  }

  @Test("responses may be as large as the call allows")
  func size() async throws {
    try await EchoServer.serving { port, _ in
      try await withChannel(to: .ipv4(address: "127.0.0.1", port: port), config: Self.config) {
        client, _ in
        var options = CallOptions.defaults
        options.maxResponseMessageBytes = 100
        let error = try await failure { [options] in
          try await client.echo(
            EchoServer.get, String(repeating: "a", count: 1000), options: options)
        }
        #expect(error != nil)
      }
    }
  }

  @Test("a restarted server is found by the next call")
  func restart() async throws {
    // NIO's sockets are open in every child that another test starts, and a TCP port stays in use
    // until then.
    let directory = try TemporaryDirectory()
    let socket = "\(directory.path)/echo.sock"
    let (states, state) = AsyncStream.makeStream(of: ConnectivityState.self)
    var config = Self.config
    config.onConnectivityStateChange = { state.yield($0) }
    try await withChannel(to: .unixDomainSocket(path: socket), config: config) {
      client, _ in
      for _ in 0..<5 {
        try await EchoServer.serving(at: .unixDomainSocket(path: socket)) { _, _ in
          let answer = try await client.echo(options: .waiting)
          #expect(answer == "hello")
        }
        // The server is gone; until the channel notices, a call may still use it.
        for await state in states where state == .idle { break }
      }
    }
  }

  @Test("after the channel's end calls fail")
  func shutdown() async throws {
    try await EchoServer.serving { port, _ in
      let transport = try NetworkAwareTransport(
        target: .ipv4(address: "127.0.0.1", port: port), transportSecurity: .plaintext,
        config: Self.config)
      let client = GRPCClient(transport: transport)
      async let running: Void = client.runConnections()
      _ = try await client.echo()
      client.beginGracefulShutdown()
      try await running
      #expect(transport.connectivityState == .shutdown)
      await #expect(throws: (any Error).self) { try await client.echo() }
    }
  }

  @Test("an invalid configuration is refused when the channel is made")
  func invalid() {
    #expect(throws: RuntimeError.self) {
      try NetworkAwareTransport(
        target: .dns(host: "localhost"), transportSecurity: .plaintext,
        resolverRegistry: NameResolverRegistry())
    }
    #expect(throws: (any Error).self) {
      try NetworkAwareTransport(
        target: .dns(host: "localhost"),
        transportSecurity: .tls {
          $0.trustRoots = .certificates([.file(path: "/nonexistent", format: .pem)])
        })
    }
  }
}

extension CallOptions {
  static var waiting: CallOptions {
    var options = CallOptions.defaults
    options.waitForReady = true
    options.timeout = .seconds(120)
    return options
  }
}
