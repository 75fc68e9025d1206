import ArgumentParser
import Glibc
import Logging
import ServiceLifecycle

/// A telemetry service, and a client that survives a change of the network.
@main
struct Telemetry: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "A client that survives a change of the network, and its server.",
    subcommands: [Serve.self, Follow.self])
}

/// Prints a line and flushes, so that it also appears immediately in a pipe.
func say(_ line: String) {
  print(line)
  fflush(nil)
}

/// Runs services until SIGTERM or Ctrl-C. They are shut down in reverse order, one after the other.
/// Therefore list a service before its users.
func run(_ services: [any Service]) async throws {
  var configuration = ServiceGroupConfiguration(
    services: services.map { ServiceGroupConfiguration.ServiceConfiguration(service: $0) },
    gracefulShutdownSignals: [.sigterm, .sigint],
    logger: Logger(label: "telemetry") { _ in SwiftLogNoOpLogHandler() })
  // The server does not know when a client's network is gone, and would wait for its calls.
  configuration.maximumGracefulShutdownDuration = .seconds(2)
  try await ServiceGroup(configuration: configuration).run()
}
