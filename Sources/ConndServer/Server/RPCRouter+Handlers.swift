import ConnectivityProtobuf
import GRPCCore
import UnixTransport

extension RPCRouter {
  /// Registers a method with one request and one response. The handler receives the caller's
  /// credentials.
  mutating func unary<Request: Message, Response: Message>(
    _ method: MethodDescriptor,
    _ handler:
      @escaping @Sendable (_ request: Request, _ peer: PeerCredentials) async throws -> Response
  ) {
    self.unary(method) { request, caller in
      try ProtobufSerializer().serialize(await handler(request, caller))
    }
  }

  /// Registers a method with one request, and one response that the handler returns as bytes.
  mutating func unary<Request: Message>(
    _ method: MethodDescriptor,
    _ handler:
      @escaping @Sendable (_ request: Request, _ peer: PeerCredentials) async throws -> [UInt8]
  ) {
    self.unary(method) { (request: [UInt8], caller) in
      try await handler(ProtobufDeserializer().deserialize(request), caller)
    }
  }

  private mutating func unary(
    _ method: MethodDescriptor,
    _ handler:
      @escaping @Sendable (_ request: [UInt8], _ peer: PeerCredentials) async throws ->
      [UInt8]
  ) {
    self.registerHandler(
      forMethod: method, deserializer: EncodedCoder(), serializer: EncodedCoder()
    ) { stream, context in
      let request = try await ServerRequest(stream: stream)
      let response = try await handler(request.message, try context.caller)
      return StreamingServerResponse(single: ServerResponse(message: response))
    }
  }

  /// Registers a method with a stream of requests and a stream of responses.
  mutating func bidirectional<Request: Message, Response: Message>(
    _ method: MethodDescriptor,
    _ handler:
      @escaping @Sendable (
        _ requests: RPCAsyncSequence<Request, any Error>, _ peer: PeerCredentials,
        _ writer: RPCWriter<Response>
      ) async throws -> Void
  ) {
    self.registerHandler(
      forMethod: method, deserializer: ProtobufDeserializer<Request>(),
      serializer: ProtobufSerializer<Response>()
    ) { stream, context in
      StreamingServerResponse { writer in
        try await handler(stream.messages, try context.caller, writer)
        return [:]
      }
    }
  }

  /// Registers a method with one request and a stream of responses.
  mutating func serverStreaming<Request: Message, Response: Sendable>(
    _ method: MethodDescriptor, _ serializer: some MessageSerializer<Response>,
    _ handler:
      @escaping @Sendable (
        _ request: Request, _ peer: PeerCredentials, _ writer: RPCWriter<Response>
      ) async throws -> Void
  ) {
    self.registerHandler(
      forMethod: method, deserializer: ProtobufDeserializer<Request>(), serializer: serializer
    ) { stream, context in
      let request = try await ServerRequest(stream: stream)
      return StreamingServerResponse { writer in
        try await handler(request.message, try context.caller, writer)
        return [:]
      }
    }
  }
}

extension ServerContext {
  fileprivate var caller: PeerCredentials {
    get throws {
      guard let peer = self.peer else {
        throw RPCError(code: .permissionDenied, message: "the caller is unknown")
      }
      return peer
    }
  }
}

extension RPCError {
  /// The error that ends every stream when connd stops. Clients should reconnect.
  static let stopping = RPCError(code: .unavailable, message: "connd is stopping")
}
