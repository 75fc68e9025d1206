internal import GRPCCore

/// The method settings of a service config, for a single method, a service, or all methods (gRPC's
/// service config document).
struct MethodConfigs: Sendable {
  private let configs: [MethodConfig.Name: MethodConfig]
  let retryThrottle: RetryThrottle?

  init(_ service: ServiceConfig) {
    let named = service.methodConfig.flatMap { config in config.names.map { ($0, config) } }
    self.configs = Dictionary(named) { $1 }
    self.retryThrottle = service.retryThrottling.map {
      RetryThrottle(policy: $0)
    }
  }

  /// The most specific setting, or `nil` if none applies.
  subscript(_ method: MethodDescriptor) -> MethodConfig? {
    if self.configs.isEmpty { return nil }
    let service = method.service.fullyQualifiedService
    return self.configs[.init(service: service, method: method.method)]
      ?? self.configs[.init(service: service, method: "")]
      ?? self.configs[.init(service: "", method: "")]
  }
}
