import ConnectivityClient
import GRPCCore
import GRPCNIOTransportHTTP2Posix
import NIOCore
import NIOHTTP2
import Testing

/// Behaviour of grpc-swift-nio-transport that the library relies on, and that is not guaranteed. If
/// one of these tests fails after an update, check the code that its comment names.
@Suite("Assumptions about gRPC's transport", .timeLimit(.minutes(5)), .namesWaits)
struct UpstreamTests {
  /// `Connection.ready()`: opens a stream and writes no headers, so that nothing may be sent.
  @Test("C1 a connection is found ready without a stream that the server sees")
  func readiness() async throws {
    try await EchoServer.serving { port, record in
      try await withChannel(to: .ipv4(address: "127.0.0.1", port: port)) { client, _ in
        _ = try await client.echo()
        _ = try await client.echo()
      }
      #expect(record.streams == 2)
    }
  }

  /// The documentation of `Config/connection`: keepalive is gRPC's own.
  @Test("C1 keepalive is configured → pings are sent periodically, and answers keep the connection")
  func keepalive() async throws {
    let (pings, ping) = AsyncStream.makeStream(of: Void.self)
    let (connections, connection) = AsyncStream.makeStream(of: Void.self)
    try await EchoServer.serving { port, record in
      var config = NetworkAwareTransport.Config.defaults
      config.socket = "/nonexistent/connd.sock"
      config.connection.keepalive = .init(
        time: .milliseconds(50), timeout: .seconds(60), allowWithoutCalls: false)
      config.channelDebuggingCallbacks.onCreateTCPConnection = { channel in
        connection.yield()
        return channel.eventLoop.makeCompletedFuture {
          let pipeline = channel.pipeline.syncOperations
          let http2 = try pipeline.handler(type: NIOHTTP2Handler.self)
          try pipeline.addHandler(PingCounter { ping.yield() }, position: .after(http2))
        }
      }
      try await withChannel(to: .ipv4(address: "127.0.0.1", port: port), config: config) {
        client, _ in
        let call = try await hangingCall(client, record)
        for await _ in pings.prefix(5) {}
        call.cancel()
        _ = try? await call.value
        _ = try await client.echo()
      }
    }
    connection.finish()
    #expect(await connections.reduce(0) { count, _ in count + 1 } == 1)
  }

  /// Counts the server's answers to pings.
  private final class PingCounter: ChannelInboundHandler, Sendable {
    typealias InboundIn = HTTP2Frame
    private let onAnswer: @Sendable () -> Void

    init(_ onAnswer: @escaping @Sendable () -> Void) { self.onAnswer = onAnswer }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      if case .ping(_, ack: true) = self.unwrapInboundIn(data).payload { self.onAnswer() }
      context.fireChannelRead(data)
    }
  }

  private static let large = String(repeating: "x", count: 5 << 20)

  /// `NetworkAwareTransport.withStream`: the limit for requests is used for responses.
  @Test("C9 a response may be as large as the call allows, 4 MiB by default")
  func responseLimit() async throws {
    // As in generated code. Otherwise the answer may overtake the end of the request, and then gRPC
    // does not say that the size was the reason.
    var unary = EchoServer.get
    unary.type = .unary
    let method = unary
    try await EchoServer.serving { port, _ in
      try await withChannel(to: .ipv4(address: "127.0.0.1", port: port)) { client, _ in
        let error = try await failure { try await client.echo(method, Self.large) }
        #expect(error?.code == .resourceExhausted)
        var options = CallOptions.defaults
        options.maxResponseMessageBytes = 8 << 20
        let answer = try await client.echo(method, Self.large, options: options)
        #expect(answer.utf8.count == Self.large.utf8.count)
        options.maxResponseMessageBytes = 1000
        let small = try await failure { [options] in
          try await client.echo(method, String(repeating: "x", count: 2000), options: options)
        }
        #expect(small?.code == .resourceExhausted)
      }
    }
  }

  /// The same code: a limit for responses must not limit requests.
  @Test("C9 a limit for responses does not limit requests")
  func requestLimit() async throws {
    try await EchoServer.serving { port, _ in
      try await withChannel(to: .ipv4(address: "127.0.0.1", port: port)) { client, _ in
        var options = CallOptions.defaults
        options.maxResponseMessageBytes = 1000
        let error = try await failure { [options] in
          try await client.echo(EchoServer.unavailable, Self.large, options: options)
        }
        #expect(error?.message == "closed on Sundays")
      }
    }
  }

  @Test(
    "C9 requests and responses are compressed as the channel is configured",
    arguments: ["gzip", "deflate"])
  func compression(name: String) async throws {
    let algorithm: CompressionAlgorithm = name == "gzip" ? .gzip : .deflate
    try await EchoServer.serving { port, record in
      for limit in [DecompressionLimit.ratio(2), .ratio(100_000)] {
        var config = NetworkAwareTransport.Config.defaults
        config.compression.algorithm = algorithm
        config.compression.enabledAlgorithms = name == "gzip" ? .gzip : .deflate
        config.calls.decompressionLimit = limit
        try await withChannel(to: .ipv4(address: "127.0.0.1", port: port), config: config) {
          client, _ in
          let text = String(repeating: "b", count: 100_000)
          let error = try await failure {
            let answer = try await client.echo(EchoServer.get, text)
            #expect(answer == text)
          }
          // A message this small on the wire was compressed.
          #expect(error?.code == (limit == .ratio(2) ? .resourceExhausted : nil))
        }
      }
      #expect(record.calls == ["Get", "Get"])
    }
  }
}
