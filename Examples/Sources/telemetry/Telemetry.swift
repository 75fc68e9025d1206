import ArgumentParser
import Glibc
import Logging
import ServiceLifecycle

/// A service for telemetry, and a client of it that outlives a change of the network.
@main
struct Telemetry: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "A client that outlives a change of the network, and its server.",
    subcommands: [Serve.self, Follow.self])
}

/// Prints a line, at once: who watches by a pipe shall see it when it happens.
func say(_ line: String) {
  print(line)
  fflush(nil)
}

/// Runs services until SIGTERM or Ctrl-C. They are told to end in reverse order, each when the one after it has ended:
/// so name what others use before those others.
func run(_ services: [any Service]) async throws {
  var configuration = ServiceGroupConfiguration(
    services: services.map { ServiceGroupConfiguration.ServiceConfiguration(service: $0) },
    gracefulShutdownSignals: [.sigterm, .sigint],
    logger: Logger(label: "telemetry") { _ in SwiftLogNoOpLogHandler() })
  // A server has no connd to tell it that a caller's network is gone: that caller's calls would hold up its end.
  configuration.maximumGracefulShutdownDuration = .seconds(2)
  try await ServiceGroup(configuration: configuration).run()
}
