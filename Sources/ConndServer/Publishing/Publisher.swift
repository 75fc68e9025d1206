import Connectivity
import Logging

/// The destination of the monitor loop's changes.
protocol Publisher {
  /// Publishes changes in their order.
  func publish(_ changes: [ConnectivityChange])
}

/// Stores changes for the next run, then publishes them. Used on the monitor thread.
struct HistoryPublisher: Publisher {
  private let store: Store
  private let history: HistoryFile
  private let logger: Logger

  init(_ store: Store, _ history: HistoryFile, logger: Logger) {
    self.store = store
    self.history = history
    self.logger = logger
  }

  func publish(_ changes: [ConnectivityChange]) {
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
