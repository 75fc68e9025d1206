import ArgumentParser
import GRPCCore
import GRPCNIOTransportHTTP2Posix
import GRPCProtobuf
import NIOPosix
import SwiftProtobuf
import Synchronization

/// Serves on all addresses of IPv4 and optionally IPv6, until it is killed.
struct Serve: AsyncParsableCommand {
  @Option var port: Int
  @Flag(help: "On those of IPv6, too.") var ipv6 = false
  @Option(help: "A file in PEM; with it, TLS is spoken.") var certificate: String?
  @Option(help: "A file in PEM.") var key: String?

  func run() async throws {
    var security = HTTP2ServerTransport.Posix.TransportSecurity.plaintext
    if let certificate, let key {
      security = .tls(
        certificateChain: [.file(path: certificate, format: .pem)],
        privateKey: .file(path: key, format: .pem))
    }
    let transport = HTTP2ServerTransport.Posix(
      address: self.ipv6
        ? .ipv6(host: "::", port: self.port) : .ipv4(host: "0.0.0.0", port: self.port),
      transportSecurity: security,
      eventLoopGroup: MultiThreadedEventLoopGroup(numberOfThreads: 1))
    let server = GRPCServer(transport: transport, services: [EchoService()])
    async let serving: Void = server.serve()
    _ = try await transport.listeningAddress
    report("ready")
    try await serving
  }
}

/// An echo service. Calls that stay open have an ID, by which `Release` ends them.
private struct EchoService: RegistrableRPCService {
  private let open = OpenCalls()

  func registerMethods<Transport: ServerTransport>(with router: inout RPCRouter<Transport>) {
    // Unary: answers.
    self.register("Get", with: &router) { request, writer, _ in
      for try await message in request.messages { try await writer.write(message) }
    }
    // Bidirectional: answers each message, until the request ends.
    self.register("Update", with: &router) { request, writer, _ in
      for try await message in request.messages { try await writer.write(message) }
    }
    // Client streaming: answers with all messages, joined, when the request ends.
    self.register("Collect", with: &router) { request, writer, _ in
      var texts: [String] = []
      for try await message in request.messages { texts.append(message.value) }
      try await writer.write(Text(texts.joined(separator: " ")))
    }
    // Server streaming: answers, stays open, and answers again when it is released.
    self.register("Expand", with: &router) { request, writer, released in
      for try await message in request.messages { try await writer.write(message) }
      for await _ in released { return try await writer.write(Text("released")) }
    }
    // Unary: accepts the call, and answers when it is released.
    self.register("Hang", with: &router) { _, writer, released in
      for await _ in released { return try await writer.write(Text("released")) }
    }
    // Unary: releases the call that the message names.
    let open = self.open
    self.register("Release", with: &router) { request, writer, _ in
      for try await message in request.messages {
        open.release(message.value)
        try await writer.write(message)
      }
    }
  }

  private func register<Transport: ServerTransport>(
    _ method: String, with router: inout RPCRouter<Transport>,
    _ body:
      @escaping @Sendable (
        StreamingServerRequest<Text>, RPCWriter<Text>, AsyncStream<Void>
      ) async throws -> Void
  ) {
    let open = self.open
    router.registerHandler(
      forMethod: MethodDescriptor(fullyQualifiedService: "echo.Echo", method: method),
      deserializer: ProtobufDeserializer<Text>(), serializer: ProtobufSerializer<Text>()
    ) { request, context in
      let id = request.metadata[stringValues: callID].first { _ in true } ?? ""
      report("call", ["id": id, "method": method, "peer": context.remotePeer])
      let released = open.add(id)
      return StreamingServerResponse { writer in
        let answer = Task { try await body(request, writer, released) }
        try await withTaskCancellationHandler {
          try await withRPCCancellationHandler {
            try await answer.value
          } onCancelRPC: {
            answer.cancel()
          }
        } onCancel: {
          answer.cancel()
        }
        return [:]
      }
    }
  }
}

/// The calls that can be released, by ID.
private final class OpenCalls: Sendable {
  private let calls = Mutex<[String: AsyncStream<Void>.Continuation]>([:])

  /// Returns a stream with an element for the call's release.
  func add(_ id: String) -> AsyncStream<Void> {
    let (released, release) = AsyncStream.makeStream(of: Void.self)
    self.calls.withLock { $0[id] = release }
    return released
  }

  func release(_ id: String) {
    let call = self.calls.withLock { $0.removeValue(forKey: id) }
    call?.yield()
  }
}
