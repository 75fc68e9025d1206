import ArgumentParser
import Connectivity
import ConnectivityMonitor
import ConnectivityProtocol

struct StatsCommand: ConnctlCommand {
  static let configuration = CommandConfiguration.describing(
    "stats", "Show connd's counters since it started, and its current values.",
    examples: ["connctl stats", "connctl stats --json | jq .subscribers"])

  @OptionGroup var options: Options
  @ParentCommand var parent: Connctl

  func run(through connector: Connector) async throws {
    let statistics = try await self.answer(through: connector) {
      try await $0.call(ConndServices.Diagnostics.GetStatistics.self)
    }
    let started = try WallTime(statistics.startTime)
    try self.show(
      .statistics(statistics.statistics, version: statistics.version, since: started),
      self.console.style.statistics(
        statistics.statistics, version: statistics.version, since: started,
        now: self.console.now()))
  }
}
