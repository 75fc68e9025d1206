import Connectivity
import Logging

/// Reports the statistics: to clients on request, and to the log on SIGUSR1.
struct StatisticsReporter {
  let statistics: Statistics
  let store: Store
  let monitor: Monitor
  let logger: Logger
  let started = Moment()

  /// Returns the counts since the start, and the gauges.
  func figures() async -> [Statistics.Figure] {
    @Sendable func present(_ name: String, _ value: Int) -> Statistics.Figure {
      Statistics.Figure(name: name, value: UInt64(value), isPresent: true)
    }
    var figures = self.statistics.counted
    figures.append(present("subscribers", self.store.subscribers))
    figures.append(present("history", self.store.past.count))
    // Not available while connd is stopping.
    if let counts = await self.monitor.ask({ .count($0) }) {
      figures += [
        present("guarding_clients", counts.guardingClients),
        present("guarded_flows", counts.guardedFlows),
        present("watched_paths", counts.watchedPaths),
      ]
    }
    return figures
  }

  func log() async {
    var metadata: Logger.Metadata = [:]
    for figure in await self.figures() where figure.value > 0 {
      let name = figure.kind.isEmpty ? figure.name : "\(figure.name)_\(figure.kind)"
      metadata[name] = "\(figure.value)"
    }
    self.logger.notice("statistics since \(self.started.time)", metadata: metadata)
  }
}
