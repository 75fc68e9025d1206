public import GRPCCore
internal import GRPCProtobuf
public import SwiftProtobuf

/// Calls any service by a method's name and its message types, without a generated stub.
///
/// ```swift
/// let get = MethodDescriptor(fullyQualifiedService: "echo.Echo", method: "Get")
/// let reply: Google_Protobuf_StringValue = try await AnyServiceClient(client).call(
///   get, Google_Protobuf_StringValue("hello"))
/// ```
///
/// The caller must know the method's message types. A server that expects other types answers with
/// an error, or misreads the bytes. May be used from any task.
///
/// Implements rule C9.
public struct AnyServiceClient<Transport: ClientTransport>: Sendable {
  /// The client that makes the calls.
  public let client: GRPCClient<Transport>

  public init(_ client: GRPCClient<Transport>) { self.client = client }

  /// Sends one message and receives one.
  ///
  /// - Throws: An `RPCError`, also if the server answers with a status other than OK.
  public func call<Request: Message, Response: Message>(
    _ method: MethodDescriptor, _ request: Request, metadata: Metadata = [:],
    options: CallOptions = .defaults, returning: Response.Type = Response.self
  ) async throws -> Response {
    var method = method
    method.type = method.type ?? .unary
    return try await self.client.unary(
      request: ClientRequest(message: request, metadata: metadata), descriptor: method,
      serializer: ProtobufSerializer(), deserializer: ProtobufDeserializer<Response>(),
      options: options
    ) { try $0.message }
  }

  /// Sends the messages that `requests` writes, and at the same time passes the responses and their
  /// metadata to `onResponse`. For methods of any kind.
  ///
  /// - Returns: The result of `onResponse`. The call ends when `onResponse` returns, even if there
  ///   is more to send or receive.
  public func call<Request: Message, Response: Message, Result: Sendable>(
    _ method: MethodDescriptor, metadata: Metadata = [:], options: CallOptions = .defaults,
    returning: Response.Type = Response.self,
    requests: @Sendable @escaping (RPCWriter<Request>) async throws -> Void,
    onResponse: @Sendable @escaping (StreamingClientResponse<Response>) async throws -> Result
  ) async throws -> Result {
    try await self.client.bidirectionalStreaming(
      request: StreamingClientRequest(metadata: metadata, producer: requests), descriptor: method,
      serializer: ProtobufSerializer(), deserializer: ProtobufDeserializer(), options: options,
      onResponse: onResponse)
  }
}
