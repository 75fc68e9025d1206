import Connectivity
import Logging

/// Where the monitor's loop publishes.
protocol Publisher {
  /// Makes changes known, in their order.
  func publish(_ changes: [Change])
}

/// Keeps changes for the next run, and then makes them known. Used by the monitor's thread.
struct HistoryPublisher: Publisher {
  private let store: Store
  private let history: HistoryFile
  private let logger: Logger

  init(_ store: Store, _ history: HistoryFile, logger: Logger) {
    self.store = store
    self.history = history
    self.logger = logger
  }

  func publish(_ changes: [Change]) {
    do {
      let published = try changes.map { try Published($0) }
      self.history.append(
        published, clockSteps: self.store.clockSteps, past: { self.store.past })
      self.store.publish(published)
    } catch {
      self.logger.critical("a change cannot be serialised", metadata: ["error": "\(error)"])
    }
  }
}
