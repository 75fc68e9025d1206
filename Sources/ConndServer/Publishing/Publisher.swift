import Connectivity

/// The destination of the monitor loop's changes.
protocol Publisher {
  /// Publishes changes in their order.
  func publish(_ changes: [ConnectivityChange])
  /// Notes that nothing will be published again.
  func finish()
}

extension Publisher {
  func finish() {}
}

/// Publishes changes, then stores them for the next run. Used on the monitor thread.
struct HistoryPublisher: Publisher {
  private let store: Store
  private let history: HistoryFile

  init(_ store: Store, _ history: HistoryFile) {
    self.store = store
    self.history = history
  }

  func publish(_ changes: [ConnectivityChange]) {
    let published = changes.map { Published($0) }
    self.store.publish(published)
    self.history.append(
      published, clockSteps: self.store.clockSteps,
      past: { self.store.past.dropLast(published.count) })
  }

  func finish() { self.history.finish() }
}
