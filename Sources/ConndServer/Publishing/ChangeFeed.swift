import Connectivity
import ConnectivityRules
import CoreMetrics
import Invariants
import Logging

/// Publishes the loop's changes. Subscribers receive them first. Observers and the log follow once
/// the flows of clients have been evaluated, because formatting log lines takes longer.
struct ChangeFeed {
  let store: Store
  let publisher: any Publisher
  let statistics: Statistics
  let logger: Logger
  /// The published changes that have not reached observers and the log.
  private var news: [(change: ConnectivityChange, status: ConnectivityStatus)] = []
  private static let maxNews = 64
  /// The generation of the last published change.
  private var generation: UInt64

  init(_ store: Store, _ publisher: any Publisher, _ statistics: Statistics, _ logger: Logger) {
    (self.store, self.publisher) = (store, publisher)
    (self.statistics, self.logger) = (statistics, logger)
    self.generation = store.snapshot.generation
  }

  /// - Parameter status: The status after the last change.
  mutating func publish(_ changes: [ConnectivityChange], _ status: ConnectivityStatus) {
    for change in changes {
      invariant(change.generation > self.generation, "generations only grow")
      self.generation = change.generation
    }
    self.publisher.publish(changes)
    self.news += changes.map { ($0, $0.snapshot?.status ?? status) }
    // The news must not pile up if kernel messages never stop.
    if self.news.count > Self.maxNews { self.flush() }
  }

  /// Notifies observers and the log.
  mutating func flush() {
    guard !self.news.isEmpty else { return }
    for (change, status) in self.news {
      self.statistics.count(change)
      self.log(change, status)
    }
    self.news.removeAll(keepingCapacity: true)
    self.store.touch()
  }

  func log(_ change: OverrideRequests.Change) {
    self.logger.notice(
      "cost overrides changed",
      metadata: [
        "cause": "\(change.cause.change)", "user": "\(change.cause.message ?? "none")",
        "of": "\(change.subjects.map(\.description).joined(separator: ", "))",
      ])
  }

  private func log(_ change: ConnectivityChange, _ status: ConnectivityStatus) {
    guard self.logger.logLevel <= .notice else { return }
    var metadata: Logger.Metadata = [
      "generation": "\(change.generation)", "category": "\(status.category.rawValue)",
    ]
    metadata["interface"] = status.interface.map { "\($0)" }
    switch change {
    case .invalidation(let invalidation):
      metadata["interface"] = invalidation.scope.interface.map { "\($0)" }
      metadata["reason"] = "\(invalidation.reason.rawValue)"
      metadata["severity"] = "\(invalidation.severity.rawValue)"
      metadata["cause"] = "\(invalidation.cause.change)"
      self.logger.info("connections invalidated", metadata: metadata)
    case .transition(let transition):
      metadata["from"] = "\(transition.from.rawValue)"
      metadata["cause"] = "\(transition.cause.change)"
      metadata["bounced"] = transition.bounced ? "true" : nil
      self.logger.notice("the category is \(status.category.rawValue)", metadata: metadata)
    case .path(let path):
      metadata["cause"] = "\(path.cause.change)"
      self.logger.info("path changed", metadata: metadata)
    case .dns(let dns):
      metadata["cause"] = "\(dns.cause.change)"
      metadata["servers"] = "\(dns.settings.servers.map(\.description).joined(separator: " "))"
      self.logger.info("DNS servers changed", metadata: metadata)
    }
  }
}
