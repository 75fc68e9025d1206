public import GRPCCore
internal import GRPCProtobuf
public import SwiftProtobuf

/// Calls any service by a method's path and its message types, without a generated stub.
///
/// ```swift
/// let echo = AnyServiceClient(client)
/// let reply: Google_Protobuf_StringValue = try await echo.unary(
///   path: "/echo.Echo/Get", request: Google_Protobuf_StringValue("hello"))
/// ```
///
/// The caller must know the method's message types. A server that expects other types answers with
/// an error, or misreads the bytes. The path is that of HTTP/2, as in `/package.Service/Method`. A
/// malformed path fails with `INVALID_ARGUMENT`, and nothing is sent. May be used from any task.
///
/// Implements rule C9.
public struct AnyServiceClient<Transport: ClientTransport>: Sendable {
  /// The client that makes the calls.
  public let client: GRPCClient<Transport>

  public init(_ client: GRPCClient<Transport>) { self.client = client }

  /// Sends one message and receives one.
  ///
  /// - Throws: An `RPCError`, also if the server answers with a status other than OK.
  public func unary<Request: Message, Response: Message>(
    path: String, request: Request, metadata: Metadata = [:], options: CallOptions = .defaults,
    returning: Response.Type = Response.self
  ) async throws -> Response {
    try await self.unary(
      path: path, request: request, metadata: metadata, options: options, returning: returning
    ) { try $0.message }
  }

  /// Sends one message and hands the response, with its metadata, to `onResponse`.
  ///
  /// - Returns: The result of `onResponse`.
  public func unary<Request: Message, Response: Message, Result: Sendable>(
    path: String, request: Request, metadata: Metadata = [:], options: CallOptions = .defaults,
    returning: Response.Type = Response.self,
    onResponse: @Sendable @escaping (ClientResponse<Response>) async throws -> Result
  ) async throws -> Result {
    try await self.client.unary(
      request: ClientRequest(message: request, metadata: metadata),
      descriptor: MethodDescriptor(path: path, type: .unary),
      serializer: ProtobufSerializer(), deserializer: ProtobufDeserializer(), options: options,
      onResponse: onResponse)
  }

  /// Sends the messages that `requests` writes, and receives one.
  ///
  /// - Throws: An `RPCError`, also if the server answers with a status other than OK.
  public func clientStreaming<Request: Message, Response: Message>(
    path: String, metadata: Metadata = [:], options: CallOptions = .defaults,
    returning: Response.Type = Response.self,
    requests: @Sendable @escaping (RPCWriter<Request>) async throws -> Void
  ) async throws -> Response {
    try await self.clientStreaming(
      path: path, metadata: metadata, options: options, returning: returning, requests: requests
    ) { try $0.message }
  }

  /// Sends the messages that `requests` writes, and hands the response, with its metadata, to
  /// `onResponse`.
  ///
  /// - Returns: The result of `onResponse`.
  public func clientStreaming<Request: Message, Response: Message, Result: Sendable>(
    path: String, metadata: Metadata = [:], options: CallOptions = .defaults,
    returning: Response.Type = Response.self,
    requests: @Sendable @escaping (RPCWriter<Request>) async throws -> Void,
    onResponse: @Sendable @escaping (ClientResponse<Response>) async throws -> Result
  ) async throws -> Result {
    try await self.client.clientStreaming(
      request: StreamingClientRequest(metadata: metadata, producer: requests),
      descriptor: MethodDescriptor(path: path, type: .clientStreaming),
      serializer: ProtobufSerializer(), deserializer: ProtobufDeserializer(), options: options,
      onResponse: onResponse)
  }

  /// Sends one message and hands the stream of responses to `onResponse`.
  ///
  /// - Returns: The result of `onResponse`. The call ends when it returns, even if the server has
  ///   more to send.
  public func serverStreaming<Request: Message, Response: Message, Result: Sendable>(
    path: String, request: Request, metadata: Metadata = [:], options: CallOptions = .defaults,
    returning: Response.Type = Response.self,
    onResponse: @Sendable @escaping (StreamingClientResponse<Response>) async throws -> Result
  ) async throws -> Result {
    try await self.client.serverStreaming(
      request: ClientRequest(message: request, metadata: metadata),
      descriptor: MethodDescriptor(path: path, type: .serverStreaming),
      serializer: ProtobufSerializer(), deserializer: ProtobufDeserializer(), options: options,
      onResponse: onResponse)
  }

  /// Sends the messages that `requests` writes, and at the same time hands the stream of responses
  /// to `onResponse`.
  ///
  /// - Returns: The result of `onResponse`. The call ends when it returns, even if there is more to
  ///   send or receive.
  public func bidirectionalStreaming<Request: Message, Response: Message, Result: Sendable>(
    path: String, metadata: Metadata = [:], options: CallOptions = .defaults,
    returning: Response.Type = Response.self,
    requests: @Sendable @escaping (RPCWriter<Request>) async throws -> Void,
    onResponse: @Sendable @escaping (StreamingClientResponse<Response>) async throws -> Result
  ) async throws -> Result {
    try await self.client.bidirectionalStreaming(
      request: StreamingClientRequest(metadata: metadata, producer: requests),
      descriptor: MethodDescriptor(path: path, type: .bidirectionalStreaming),
      serializer: ProtobufSerializer(), deserializer: ProtobufDeserializer(), options: options,
      onResponse: onResponse)
  }
}

extension MethodDescriptor {
  /// Parses the path of a method, such as `/echo.Echo/Get`.
  ///
  /// - Throws: `INVALID_ARGUMENT` unless it consists of two names of visible ASCII characters, each
  ///   after a slash.
  init(path: String, type: RPCType) throws(RPCError) {
    let parts = path.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
    guard
      parts.count == 3, parts[0].isEmpty,
      parts.dropFirst().allSatisfy({ !$0.isEmpty && $0.allSatisfy { (0x21...0x7E).contains($0) } })
    else {
      throw RPCError(
        code: .invalidArgument,
        message: "\"\(path)\" is not the path of a method, such as \"/echo.Echo/Get\"")
    }
    self.init(
      fullyQualifiedService: String(Substring(parts[1])), method: String(Substring(parts[2])),
      type: type)
  }
}
