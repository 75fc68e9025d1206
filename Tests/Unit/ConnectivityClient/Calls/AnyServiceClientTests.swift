import ConnectivityClient
import ConnectivityTestKit
import GRPCCore
import GRPCNIOTransportHTTP2Posix
import GRPCProtobuf
import SwiftProtobuf
import Testing

typealias Words = Google_Protobuf_StringValue

@Suite("Calls without a stub", .timeLimit(.minutes(5)), .namesWaits)
struct AnyServiceClientTests {
  @Test("C9 a call with one message each way returns the response")
  func single() async throws {
    try await withEchoClient { client in
      let reply: Words = try await AnyServiceClient(client).call(.echo("Get"), Words("hello"))
      #expect(reply.value == "hello")
    }
  }

  @Test(
    "C9 messages and metadata pass in any number",
    arguments: [
      ("Get", ["a"], ["a"]), ("Collect", ["a", "b"], ["a b"]), ("Expand", ["a b"], ["a", "b"]),
    ])
  func streams(method: String, sent: [String], received: [String]) async throws {
    try await withEchoClient { client in
      let (words, seen) = try await AnyServiceClient(client).call(
        .echo(method), metadata: ["x-test": "1"], returning: Words.self
      ) { writer in
        for word in sent { try await writer.write(Words(word)) }
      } onResponse: { response in
        (
          try await response.messages.reduce(into: []) { $0.append($1.value) },
          Array(response.metadata[stringValues: "seen-keys"])
        )
      }
      #expect(words == received)
      #expect(seen.contains("x-test"))
    }
  }

  @Test("C9 bidirectional streaming: messages go both ways while the call is open")
  func bidirectionalStreaming() async throws {
    let (answers, answer) = AsyncStream.makeStream(of: String.self)
    try await withEchoClient { client in
      let words = try await AnyServiceClient(client).call(
        .echo("Update"), returning: Words.self,
        requests: { writer in
          var received = answers.makeAsyncIterator()
          for word in ["a", "b"] {
            try await writer.write(Words(word))
            // The next is sent only after this one has come back.
            #expect(await received.next() == word)
          }
        },
        onResponse: { response in
          var words: [String] = []
          for try await message in response.messages {
            words.append(message.value)
            answer.yield(message.value)
          }
          return words
        })
      #expect(words == ["a", "b"])
    }
  }

  @Test("C9 the server's status and a deadline reach the caller")
  func failures() async throws {
    try await withEchoClient { client in
      let echo = AnyServiceClient(client)
      await expectCode(.notFound) {
        _ = try await echo.call(.echo("Get"), Words("missing"), returning: Words.self)
      }
      await expectCode(.unimplemented) {
        _ = try await echo.call(.echo("Nothing"), Words(), returning: Words.self)
      }
      var options = CallOptions.defaults
      options.timeout = .milliseconds(50)
      await expectCode(.deadlineExceeded) {
        _ = try await echo.call(.echo("Hang"), Words(), options: options, returning: Words.self)
      }
    }
  }

  @Test("C9 a service without a package works")
  func noPackage() async throws {
    try await withEchoClient { client in
      let reply: Words = try await AnyServiceClient(client).call(
        MethodDescriptor(fullyQualifiedService: "echo", method: "Get"), Words("hello"))
      #expect(reply.value == "hello")
    }
  }
}

extension MethodDescriptor {
  /// A method of ``EchoService``.
  static func echo(_ method: String) -> Self {
    MethodDescriptor(fullyQualifiedService: "echo.Echo", method: method)
  }
}

/// Expects `body` to throw an `RPCError` with this code.
func expectCode(
  _ code: RPCError.Code, sourceLocation: SourceLocation = #_sourceLocation,
  _ body: () async throws -> Void
) async {
  let error = await #expect(throws: RPCError.self, sourceLocation: sourceLocation) {
    try await body()
  }
  #expect(error?.code == code, sourceLocation: sourceLocation)
}

// MARK: - The server

/// `/echo.Echo/Get`, `Collect`, `Expand` and `Update`, and `/echo/Get`: strings come back
/// unchanged, and `missing` as `NOT_FOUND`. `Hang` does not answer. The names of the received
/// metadata come back as `seen-keys`.
struct EchoService: RegistrableRPCService {
  func registerMethods<Transport: ServerTransport>(with router: inout RPCRouter<Transport>) {
    self.add("Get", to: &router) { requests, writer in
      for try await request in requests {
        if request.value == "missing" { throw RPCError(code: .notFound, message: "no such thing") }
        try await writer.write(request)
      }
    }
    self.add("Get", of: "echo", to: &router) { requests, writer in
      for try await request in requests { try await writer.write(request) }
    }
    self.add("Collect", to: &router) { requests, writer in
      let words = try await requests.reduce(into: []) { $0.append($1.value) }
      try await writer.write(Words(words.joined(separator: " ")))
    }
    self.add("Expand", to: &router) { requests, writer in
      for try await request in requests {
        for word in request.value.split(separator: " ") {
          try await writer.write(Words(String(word)))
        }
      }
    }
    self.add("Update", to: &router) { requests, writer in
      for try await request in requests { try await writer.write(request) }
    }
    self.add("Hang", to: &router) { _, _ in await cancellation() }
  }

  private func add<Transport: ServerTransport>(
    _ method: String, of service: String = "echo.Echo", to router: inout RPCRouter<Transport>,
    _ body:
      @Sendable @escaping (RPCAsyncSequence<Words, any Error>, RPCWriter<Words>) async throws ->
      Void
  ) {
    router.registerHandler(
      forMethod: MethodDescriptor(fullyQualifiedService: service, method: method),
      deserializer: ProtobufDeserializer<Words>(), serializer: ProtobufSerializer<Words>()
    ) { request, context in
      var metadata = Metadata()
      for (key, _) in request.metadata { metadata.addString(key, forKey: "seen-keys") }
      return StreamingServerResponse(metadata: metadata) { writer in
        // A cancelled call must not hold up the server.
        try await withRPCCancellationRace(context) { try await body(request.messages, writer) }
        return [:]
      }
    }
  }
}

/// Runs `body` until it ends or the call is cancelled.
private func withRPCCancellationRace(
  _ context: ServerContext, _ body: @Sendable @escaping () async throws -> Void
) async throws {
  try await withThrowingTaskGroup(of: Void.self) { group in
    group.addTask(operation: body)
    group.addTask { try await context.cancellation.cancelled }
    defer { group.cancelAll() }
    try await group.next()
  }
}

/// Runs `body` with the port of an ``EchoService`` on 127.0.0.1.
func withEchoServer<Result: Sendable>(
  compression: CompressionAlgorithmSet = .none, _ body: (Int) async throws -> Result
) async throws -> Result {
  try await Listener.serving(
    [EchoService()], at: .ipv4(host: "127.0.0.1", port: 0),
    configure: { $0.compression.enabledAlgorithms = compression }
  ) { address in
    try await body(try #require(address.ipv4?.port))
  }
}

/// Runs `body` with a plain client of an ``EchoService``.
func withEchoClient<Result: Sendable>(
  _ body: (GRPCClient<HTTP2ClientTransport.Posix>) async throws -> Result
) async throws -> Result {
  try await withEchoServer { port in
    try await withGRPCClient(
      transport: .http2NIOPosix(
        target: .ipv4(address: "127.0.0.1", port: port), transportSecurity: .plaintext),
      handleClient: body)
  }
}
