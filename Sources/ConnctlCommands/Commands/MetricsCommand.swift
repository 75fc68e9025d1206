import ArgumentParser
import Connectivity
import ConnectivityMonitor
import ConnectivityProtocol
import Glibc

struct MetricsCommand: ConnctlCommand {
  static let configuration = CommandConfiguration.describing(
    "metrics", "Print connd's state and counters as OpenMetrics text.",
    discussion: """
      Prometheus' text format is a part of it, so node_exporter's textfile collector reads the \
      output, too. Replace its file with mv, so that it never reads half of it.

      connd-metrics.socket serves them to Prometheus, at http://127.0.0.1:9733/metrics.
      """,
    examples: [
      "connctl metrics | grep ^connd_category",
      "connctl metrics > $DIR/connd.prom.new && mv $DIR/connd.prom.new $DIR/connd.prom",
      "systemctl enable --now connd-metrics.socket",
    ])

  @Flag(help: "Answer one HTTP request on standard input, as connd-metrics.socket does.")
  var http = false

  @Option(
    help: ArgumentHelp(
      "With --http, answer also requests to this name of the machine. Addresses and localhost need none.",
      valueName: "name"))
  var host: [String] = []

  @OptionGroup var options: PlainOptions
  @ParentCommand var parent: Connctl

  func validate() throws {
    guard self.http || self.host.isEmpty else { throw ValidationError("--host needs --http") }
  }

  func run(through connector: Connector) async throws {
    guard self.http else {
      let metrics = try await self.answer(through: connector) {
        try await self.metrics(.openMetrics, from: $0)
      }
      return try self.console.write(metrics.text)
    }
    let connection = RequestReader(STDIN_FILENO)
    guard let (response, isHead) = await self.response(to: connection, through: connector) else {
      return
    }
    try self.console.write(response.text(at: self.console.now(), withBody: !isHead))
    connection.finish()
  }

  /// Returns the response, or `nil` if the client sends no request.
  private func response(
    to connection: RequestReader, through connector: Connector
  ) async -> (HTTPResponse, isHead: Bool)? {
    do {
      guard let head = try connection.head() else { return nil }
      let request = try MetricsRequest(head: head, hosts: self.host)
      do {
        let metrics = try await connector.withServices(at: self.socket) {
          try await self.metrics(request.format, from: $0)
        }
        return (HTTPResponse(metrics, as: request.format), request.isHead)
      } catch {
        let reason = (error as? ConndError)?.advice(socket: self.socket) ?? "\(error)"
        return (HTTPResponse(HTTPRefusal.withoutConnd(reason)), request.isHead)
      }
    } catch {
      return (HTTPResponse(error), false)
    }
  }

  private func metrics(
    _ format: Metrics.Format, from connd: ConndServices
  ) async throws -> Metrics {
    let status = try await connd.call(ConndServices.Connectivity.GetStatus.self)
    let statistics = try await connd.call(ConndServices.Diagnostics.GetStatistics.self)
    return Metrics(
      try ConnectivitySnapshot(status), statistics.statistics,
      since: try WallTime(statistics.startTime), version: statistics.version, as: format)
  }
}
