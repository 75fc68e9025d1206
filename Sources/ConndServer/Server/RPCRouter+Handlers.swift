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
    self.unary(method, ProtobufSerializer<Response>(), handler)
  }

  mutating func unary<Request: Message, Response: Sendable>(
    _ method: MethodDescriptor, _ serializer: some MessageSerializer<Response>,
    _ handler:
      @escaping @Sendable (_ request: Request, _ peer: PeerCredentials) async throws -> Response
  ) {
    self.registerHandler(
      forMethod: method, deserializer: ProtobufDeserializer<Request>(), serializer: serializer
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

/// A serializer for messages that are already serialized.
struct EncodedSerializer: MessageSerializer {
  func serialize<Bytes: GRPCContiguousBytes>(_ message: [UInt8]) throws -> Bytes {
    Bytes(message)
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
