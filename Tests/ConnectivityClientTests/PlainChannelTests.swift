import ConnectivityClient
import GRPCCore
import GRPCNIOTransportHTTP2Posix
import Synchronization
import TestKit
import Testing

/// The channel where connd is not there: a plain one.
@Suite("Channels without connd")
struct PlainChannelTests {
  static var config: NetworkAwareTransport.Config {
    .defaults { $0.socket = "/nonexistent/connd.sock" }
  }

  @Test("C7 without connd calls work, and the server sees nothing but them")
  func calls() async throws {
    try await EchoServer.serving { port, record in
      var config = Self.config
      config.guardsLoopback = true
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

  @Test("C4 a server that refuses fails the call with UNAVAILABLE and its words")
  func refused() async throws {
    // A port that nobody listens on, because it was just given back.
    let port = try await EchoServer.serving { port, _ in port }
    try await withChannel(to: .ipv4(address: "127.0.0.1", port: port), config: Self.config) {
      client, transport in
      let error = try #require(try await failure { try await client.echo() })
      #expect(error.code == .unavailable)
      #expect("\(error)".contains("refused"))
      #expect(transport.connectivityState == .transientFailure)
    }
  }

  @Test("C5 a name that is not resolved fails the call at once, in the resolver's words")
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

  @Test("a call that the server ends with UNAVAILABLE ends in the server's words")
  func unavailable() async throws {
    try await EchoServer.serving { port, _ in
      try await withChannel(to: .ipv4(address: "127.0.0.1", port: port), config: Self.config) {
        client, _ in
        let error = try #require(
          try await failure { try await client.echo(EchoServer.unavailable) })
        #expect(error.code == .unavailable)
        #expect(error.message == "closed on Sundays")
        #expect(error.invalidation == nil)
      }
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
    // It accepts, and never says a word.
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

  @Test("calls that are cancelled while they wait end as cancelled")
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

  @Test("a server that is started again is found again by the next call")
  func restart() async throws {
    let port = try await EchoServer.serving { port, _ in port }
    let (states, state) = AsyncStream.makeStream(of: ConnectivityState.self)
    var config = Self.config
    config.onConnectivityStateChange = { state.yield($0) }
    try await withChannel(to: .ipv4(address: "127.0.0.1", port: port), config: config) {
      client, _ in
      for _ in 0..<5 {
        try await EchoServer.serving(port: port) { _, _ in
          let answer = try await client.echo(options: .waiting)
          #expect(answer == "hello")
        }
        // The server is gone; until the channel knows, a call may still go to it.
        for await state in states where state == .idle { break }
      }
    }
  }

  @Test("after the end of the channel calls fail")
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

  @Test("what cannot work is refused when the channel is made")
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
    options.timeout = .seconds(20)
    return options
  }
}
