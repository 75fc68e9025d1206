import ArgumentParser
import GRPCCore
import GRPCNIOTransportHTTP2Posix
import ServiceLifecycle

/// The server. It does not need connd.
struct Serve: AsyncParsableCommand {
  static let configuration = CommandConfiguration(abstract: "Serve telemetry on all addresses.")

  @Option(help: "The port to listen on; 0 means any.")
  var port: Int

  func run() async throws {
    let transport = HTTP2ServerTransport.Posix(
      address: .ipv4(host: "0.0.0.0", port: self.port), transportSecurity: .plaintext)
    let server = GRPCServer(transport: transport, services: [TelemetryService()])
    try await telemetry.run([GRPCServerService(server: server)])
  }
}

private struct TelemetryService: Telemetry_V1_Telemetry.SimpleServiceProtocol {
  func report(
    request: Telemetry_V1_Reading, context: ServerContext
  ) async throws -> Telemetry_V1_Receipt {
    .with { $0.seenFrom = context.remotePeer }
  }

  func follow(
    request: Telemetry_V1_FollowRequest, response: RPCWriter<Telemetry_V1_Notice>,
    context: ServerContext
  ) async throws {
    var notice = Telemetry_V1_Notice.with { $0.seenFrom = context.remotePeer }
    // The server ends with its last call, so an endless call must watch for the shutdown.
    while !Task.isShuttingDownGracefully {
      notice.number += 1
      try await response.write(notice)
      try await Task.sleep(for: .seconds(2))
    }
  }
}

/// Runs a server as a service of swift-service-lifecycle.
private struct GRPCServerService<Transport: ServerTransport & ListeningServerTransport>: Service {
  let server: GRPCServer<Transport>

  func run() async throws {
    try await withGracefulShutdownHandler {
      async let serving: Void = self.server.serve()
      if let address = try await self.server.listeningAddress { say("listening on \(address)") }
      try await serving
    } onGracefulShutdown: {
      self.server.beginGracefulShutdown()
    }
  }
}
