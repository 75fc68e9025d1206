import ConnectivityClient
import ConnectivityTestKit
import GRPCCore
import GRPCNIOTransportHTTP2Posix
import GRPCProtobuf
import Glibc
import NIOCore
import SwiftProtobuf
import Testing

/// A service without a schema that sends back what it receives.
struct EchoServer: RegistrableRPCService {
  typealias Message = Google_Protobuf_StringValue

  /// Answers the request's single message.
  static let get = MethodDescriptor(fullyQualifiedService: "echo.Echo", method: "Get")
  /// Answers each message, until the request ends.
  static let update = MethodDescriptor(fullyQualifiedService: "echo.Echo", method: "Update")
  /// Accepts the call, and never sends anything.
  static let hang = MethodDescriptor(fullyQualifiedService: "echo.Echo", method: "Hang")
  /// Receives the call, and does not even accept it.
  static let hush = MethodDescriptor(fullyQualifiedService: "echo.Echo", method: "Hush")
  /// Ends with UNAVAILABLE and the server's own message.
  static let unavailable = MethodDescriptor(
    fullyQualifiedService: "echo.Echo", method: "Unavailable")

  /// The calls that the server received.
  final class Record: Sendable {
    private struct State {
      var streams = 0
      var calls: [String] = []
      var metadata: [Metadata] = []
      var connections: [any NIOCore.Channel] = []
    }

    private let state = WatchedState(State())

    /// The number of HTTP/2 streams that clients have opened.
    var streams: Int { self.state.value.streams }
    var calls: [String] { self.state.value.calls }
    var metadata: [Metadata] { self.state.value.metadata }

    func addConnection(_ channel: any NIOCore.Channel) {
      self.state.change { $0.connections.append(channel) }
    }

    /// Resets all connections, as the kernel does when the server's machine has restarted.
    func resetConnections() {
      for channel in self.state.value.connections {
        let options = channel as? any SocketOptionProvider
        options?.setSoLinger(linger(l_onoff: 1, l_linger: 0)).whenComplete { _ in
          channel.close(promise: nil)
        }
      }
    }

    func addStream() { self.state.change { $0.streams += 1 } }

    func add(_ method: String, _ metadata: Metadata) {
      self.state.change { state in
        state.calls.append(method)
        state.metadata.append(metadata)
      }
    }

    /// Returns when the server has received this many calls.
    func reach(_ count: Int, sourceLocation: SourceLocation = #_sourceLocation) async throws {
      try await self.state.wait(for: "\(count) calls to arrive", sourceLocation) {
        $0.calls.count >= count
      }
    }
  }

  let record = Record()

  func registerMethods<Transport: ServerTransport>(with router: inout RPCRouter<Transport>) {
    self.register(Self.get, with: &router) { request, writer in
      for try await message in request.messages { try await writer.write(message) }
    }
    self.register(Self.update, with: &router) { request, writer in
      for try await message in request.messages { try await writer.write(message) }
    }
    self.register(Self.hang, with: &router) { _, _ in
      await cancellation()
    }
    self.register(Self.unavailable, with: &router) { _, _ in
      throw RPCError(code: .unavailable, message: "closed on Sundays")
    }
    // Hangs without response headers, after which gRPC retries nothing.
    router.registerHandler(
      forMethod: Self.hush, deserializer: ProtobufDeserializer<Message>(),
      serializer: ProtobufSerializer<Message>()
    ) { [record] request, context in
      record.add(Self.hush.method, request.metadata)
      try await untilCancelled(context) { await cancellation() }
      throw RPCError(code: .cancelled, message: "")
    }
  }

  private func register<Transport: ServerTransport>(
    _ method: MethodDescriptor, with router: inout RPCRouter<Transport>,
    _ body:
      @escaping @Sendable (StreamingServerRequest<Message>, RPCWriter<Message>) async throws -> Void
  ) {
    let record = self.record
    router.registerHandler(
      forMethod: method, deserializer: ProtobufDeserializer<Message>(),
      serializer: ProtobufSerializer<Message>()
    ) { request, context in
      record.add(method.method, request.metadata)
      return StreamingServerResponse { writer in
        try await untilCancelled(context) { try await body(request, writer) }
        return [:]
      }
    }
  }

  /// Serves on loopback while `body` runs, and then disconnects all clients.
  static func serving<Result: Sendable>(
    at address: GRPCNIOTransportHTTP2Posix.SocketAddress = .ipv4(host: "127.0.0.1", port: 0),
    security: HTTP2ServerTransport.Posix.TransportSecurity = .plaintext,
    _ body: @Sendable (_ port: Int, Record) async throws -> Result
  ) async throws -> Result {
    let echo = EchoServer()
    return try await Listener.serving(
      [echo], at: address, security: security,
      configure: {
        $0.compression.enabledAlgorithms = [.gzip, .deflate]
        $0.rpc.maxRequestPayloadSize = 16 << 20
        $0.connection.keepalive.clientBehavior.minPingIntervalWithoutCalls = .zero
      },
      onConnection: { echo.record.addConnection($0) }, onCall: { _ in echo.record.addStream() }
    ) { address in
      try await body(address.ipv4?.port ?? 0, echo.record)
    }
  }
}

/// Runs the body of a call. Cancels it if the client has cancelled the call.
private func untilCancelled(
  _ context: ServerContext, _ body: @escaping @Sendable () async throws -> Void
) async throws {
  // Child tasks run on the server's thread, too. The end of a call, which that thread writes, would
  // overtake messages from other threads.
  try await withThrowingTaskGroup(of: Void.self) { group in
    group.addTask { try await body() }
    group.addTask {
      try await context.cancellation.cancelled
      throw CancellationError()
    }
    try await group.next()
    group.cancelAll()
  }
}

/// Returns when the task is cancelled.
func cancellation() async {
  for await _ in AsyncStream<Void>.makeStream().stream {}
}

extension GRPCClient {
  typealias Echo = Google_Protobuf_StringValue

  func echo(
    _ method: MethodDescriptor = EchoServer.get, _ text: String = "hello",
    options: CallOptions = .defaults, sourceLocation: SourceLocation = #_sourceLocation
  ) async throws -> String {
    try await waiting(for: "the end of a call of \(method.method)", sourceLocation) {
      try await self.unary(
        request: ClientRequest(message: Echo(text)), descriptor: method,
        serializer: ProtobufSerializer<Echo>(), deserializer: ProtobufDeserializer<Echo>(),
        options: options
      ) { try $0.message.value }
    }
  }
}

/// Runs `body` with a client of a network-aware channel.
func withChannel<Result: Sendable>(
  to target: any ResolvableTarget,
  security: HTTP2ClientTransport.Posix.TransportSecurity = .plaintext,
  config: NetworkAwareTransport.Config = .defaults, serviceConfig: ServiceConfig = ServiceConfig(),
  _ body:
    @Sendable (GRPCClient<NetworkAwareTransport>, NetworkAwareTransport) async throws -> Result
) async throws -> Result {
  let transport = try NetworkAwareTransport(
    target: target, transportSecurity: security, config: config, serviceConfig: serviceConfig)
  return try await withGRPCClient(transport: transport) { try await body($0, transport) }
}

/// The status of a gRPC error; any other error is rethrown.
func failure<Result: Sendable>(
  _ body: () async throws -> Result
) async throws -> RPCError? {
  do {
    _ = try await body()
    return nil
  } catch let error as RPCError {
    return error
  }
}
