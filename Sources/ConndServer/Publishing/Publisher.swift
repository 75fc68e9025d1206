import Connectivity

/// The destination of the monitor loop's changes.
protocol Publisher {
  /// Publishes changes in their order.
  func publish(_ changes: [ConnectivityChange])
}

/// Stores changes for the next run, then publishes them. Used on the monitor thread.
struct HistoryPublisher: Publisher {
  private let store: Store
  private let history: HistoryFile

  init(_ store: Store, _ history: HistoryFile) {
    self.store = store
    self.history = history
  }

  func publish(_ changes: [ConnectivityChange]) {
    let published = changes.map { Published($0) }
    self.history.append(published, clockSteps: self.store.clockSteps, past: { self.store.past })
    self.store.publish(published)
  }
}
