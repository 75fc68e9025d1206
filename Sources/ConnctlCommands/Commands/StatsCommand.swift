import ArgumentParser
import Connectivity
import ConnectivityProtocol
import ConnectivityMonitor

struct StatsCommand: ConnctlCommand {
  static let configuration = CommandConfiguration(
    commandName: "stats",
    abstract: "Show connd's counters since it started, and its current values.")

  @OptionGroup var options: Options
  @ParentCommand var parent: Connctl

  func run(through connector: Connector) async throws {
    let statistics = try await connector.withServices(at: self.socket) { connd in
      try await connd.diagnostics.getStatistics(.init(), options: .prompt)
    }
    let started = try Timestamp(statistics.startTime)
    if self.json {
      try self.console.print(.statistics(statistics.statistics, since: started))
    } else {
      try self.console.print(
        self.console.style.statistics(
          statistics.statistics, since: started, now: self.console.now()))
    }
  }
}
