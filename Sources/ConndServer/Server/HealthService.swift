import ConnectivityProtobuf
import ConnectivityProtocol
import GRPCCore
import StandardServices

/// Implements `grpc.health.v1.Health`. connd serves from its first reading until it stops, and
/// accepts no calls before.
struct HealthService: RegistrableRPCService {
  let monitor: Monitor
  let store: Store

  private static let services: Set<String> = [
    "", Connectivity_V1_Connectivity.descriptor.fullyQualifiedService,
    Connectivity_V1_Costs.descriptor.fullyQualifiedService,
    Connectivity_V1_Diagnostics.descriptor.fullyQualifiedService,
    Grpc_Health_V1_Health.descriptor.fullyQualifiedService,
  ]

  func registerMethods<Transport: ServerTransport>(with router: inout RPCRouter<Transport>) {
    router.unary(
      Grpc_Health_V1_Health.Method.Check.descriptor
    ) { (request: Grpc_Health_V1_HealthCheckRequest, _) -> Grpc_Health_V1_HealthCheckResponse in
      guard Self.services.contains(request.service) else {
        throw RPCError(code: .notFound, message: "service: '\(request.service)' is not served")
      }
      return .with { $0.status = self.monitor.isStopping ? .notServing : .serving }
    }
    router.serverStreaming(
      Grpc_Health_V1_Health.Method.Watch.descriptor,
      ProtobufSerializer<Grpc_Health_V1_HealthCheckResponse>()
    ) { (request: Grpc_Health_V1_HealthCheckRequest, _, writer) in
      try await self.watch(request.service, writer)
    }
  }

  private func watch(
    _ service: String, _ writer: RPCWriter<Grpc_Health_V1_HealthCheckResponse>
  ) async throws {
    let isServed = Self.services.contains(service)
    try await writer.write(.with { $0.status = isServed ? .serving : .serviceUnknown })
    // The status changes only when connd stops, and the store then ends all observers' streams.
    let end = self.store.observe()
    await withRPCCancellationHandler {
      for await _ in end.stream {}
    } onCancelRPC: {
      end.continuation.finish()
    }
    if isServed, self.monitor.isStopping {
      try await writer.write(.with { $0.status = .notServing })
    }
  }
}
