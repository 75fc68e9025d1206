public import GRPCCore
public import ServiceLifecycle

/// Runs a client's connections as a service of swift-service-lifecycle.
///
/// ```swift
/// let client = GRPCClient(transport: try .networkAware(…))
/// let group = ServiceGroup(
///   services: [GRPCClientService(client), worker],
///   gracefulShutdownSignals: [.sigterm], logger: logger)
/// try await group.run()
/// ```
///
/// On a graceful shutdown, the service starts no more calls and ends after the last one. If its
/// task is cancelled, calls fail with `UNAVAILABLE`.
public struct GRPCClientService<Transport: ClientTransport>: Service {
  public let client: GRPCClient<Transport>

  public init(_ client: GRPCClient<Transport>) { self.client = client }

  public func run() async throws {
    try await withGracefulShutdownHandler {
      try await self.client.runConnections()
    } onGracefulShutdown: {
      self.client.beginGracefulShutdown()
    }
  }
}
