import GRPCCore
import GRPCNIOTransportHTTP2Posix
import NIOPosix

/// A service without a schema, whose messages are bytes.
struct Echo: RegistrableRPCService {
  typealias Message = [UInt8]

  /// Echoes its request.
  static let get = MethodDescriptor(fullyQualifiedService: "echo.Echo", method: "Get")
  /// Accepts the call, and never sends anything.
  static let hang = MethodDescriptor(fullyQualifiedService: "echo.Echo", method: "Hang")

  func registerMethods<Transport: ServerTransport>(with router: inout RPCRouter<Transport>) {
    router.registerHandler(forMethod: Self.get, deserializer: Bytes(), serializer: Bytes()) {
      request, _ in
      StreamingServerResponse { writer in
        for try await message in request.messages { try await writer.write(message) }
        return [:]
      }
    }
    router.registerHandler(forMethod: Self.hang, deserializer: Bytes(), serializer: Bytes()) {
      request, _ in
      StreamingServerResponse { _ in
        for try await _ in request.messages {}
        return [:]
      }
    }
  }
}

/// Serves on all addresses, until it is killed.
func serve(port: Int) async throws {
  let transport = HTTP2ServerTransport.Posix(
    address: .ipv4(host: "0.0.0.0", port: port), transportSecurity: .plaintext,
    eventLoopGroup: MultiThreadedEventLoopGroup(numberOfThreads: 1))
  let server = GRPCServer(transport: transport, services: [Echo()])
  async let serving: Void = server.serve()
  _ = try await transport.listeningAddress
  say("serving")
  try await serving
}

/// Messages are passed unchanged.
struct Bytes: MessageSerializer, MessageDeserializer {
  func serialize<Sent: GRPCContiguousBytes>(_ message: Echo.Message) throws -> Sent {
    Sent(message)
  }

  func deserialize<Received: GRPCContiguousBytes>(_ received: Received) throws -> Echo.Message {
    received.withUnsafeBytes { Array($0) }
  }
}
