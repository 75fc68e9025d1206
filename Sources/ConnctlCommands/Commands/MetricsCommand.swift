import ArgumentParser
import Connectivity
import ConnectivityMonitor
import ConnectivityProtocol

struct MetricsCommand: ConnctlCommand {
  static let configuration = CommandConfiguration.describing(
    "metrics", "Print connd's state and counters as OpenMetrics text.",
    discussion: """
      Prometheus' text format is a part of it, so node_exporter's textfile collector reads the \
      output, too. Replace its file with mv, so that it never reads half of it.
      """,
    examples: [
      "connctl metrics | grep ^connd_category",
      "connctl metrics > $DIR/connd.prom.new && mv $DIR/connd.prom.new $DIR/connd.prom",
    ])

  @OptionGroup var options: PlainOptions
  @ParentCommand var parent: Connctl

  func run(through connector: Connector) async throws {
    let (status, statistics) = try await connector.withServices(at: self.socket) { connd in
      (
        try await connd.connectivity.getStatus(.init(), options: .prompt),
        try await connd.diagnostics.getStatistics(.init(), options: .prompt)
      )
    }
    let metrics = Metrics(
      try ConnectivitySnapshot(status), statistics.statistics,
      since: try WallTime(statistics.startTime))
    try self.console.write(metrics.text)
  }
}
