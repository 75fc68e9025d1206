public import GRPCCore

/// A method of a gRPC service. dev/protoc-gen-messages generates the types from the .proto files.
public protocol ServiceMethod {
  associatedtype Input: Message
  associatedtype Output: Message

  static var descriptor: MethodDescriptor { get }
}

extension GRPCClient {
  /// Calls a method with one request and one response.
  public func unary<Method: ServiceMethod>(
    _ method: Method.Type, _ request: Method.Input, options: CallOptions = .defaults
  ) async throws -> Method.Output {
    let request: [UInt8] = try ProtobufSerializer().serialize(request)
    let response = try await self.unary(
      request: ClientRequest(message: request), descriptor: method.descriptor,
      serializer: EncodedCoder(), deserializer: EncodedCoder(), options: options
    ) { try $0.message }
    return try ProtobufDeserializer().deserialize(response)
  }
}

extension RPCRouter {
  /// Registers a method with one request and one response.
  public mutating func unary<Method: ServiceMethod>(
    _ method: Method.Type,
    _ handler:
      @escaping @Sendable (_ request: Method.Input, _ context: ServerContext) async throws ->
      Method.Output
  ) {
    self.register(method) { stream, context in
      let request = try await ServerRequest(stream: stream)
      let response = try await handler(request.message, context)
      return StreamingServerResponse(single: ServerResponse(message: response))
    }
  }

  /// Registers a method with one request and a stream of responses.
  public mutating func serverStreaming<Method: ServiceMethod>(
    _ method: Method.Type,
    _ handler:
      @escaping @Sendable (
        _ request: Method.Input, _ responses: RPCWriter<Method.Output>, _ context: ServerContext
      ) async throws -> Void
  ) {
    self.register(method) { stream, context in
      let request = try await ServerRequest(stream: stream)
      return StreamingServerResponse { writer in
        try await handler(request.message, writer, context)
        return [:]
      }
    }
  }

  /// Registers a method with a stream of requests and a stream of responses.
  public mutating func bidirectional<Method: ServiceMethod>(
    _ method: Method.Type,
    _ handler:
      @escaping @Sendable (
        _ requests: RPCAsyncSequence<Method.Input, any Error>,
        _ responses: RPCWriter<Method.Output>, _ context: ServerContext
      ) async throws -> Void
  ) {
    self.register(method) { stream, context in
      StreamingServerResponse { writer in
        try await handler(stream.messages, writer, context)
        return [:]
      }
    }
  }

  private mutating func register<Method: ServiceMethod>(
    _ method: Method.Type,
    _ handler:
      @escaping @Sendable (StreamingServerRequest<Method.Input>, ServerContext) async throws ->
      StreamingServerResponse<Method.Output>
  ) {
    self.registerHandler(
      forMethod: method.descriptor, deserializer: ProtobufDeserializer<Method.Input>(),
      serializer: ProtobufSerializer<Method.Output>(), handler: handler)
  }
}
