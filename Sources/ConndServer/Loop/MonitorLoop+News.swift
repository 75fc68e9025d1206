import Connectivity
import ConnectivityRules
import Logging

// Publishing and logging of what was read.
extension MonitorLoop {
  mutating func publish(_ changes: [Change]) {
    guard !changes.isEmpty else { return }
    self.publisher.publish(changes)
    if self.engine.flows.lookTakesLong { self.sweepDelay.begin(at: self.clock.now) }
    let status = self.engine.snapshot.status
    self.news += changes.map { ($0, $0.snapshot?.status ?? status) }
  }

  /// Notifies store observers and the log. They can wait until the flows of clients have been
  /// evaluated.
  mutating func tellOfNews() {
    guard !self.news.isEmpty else { return }
    for (change, status) in self.news {
      self.statistics.count(change)
      self.log(change, status)
    }
    self.news.removeAll(keepingCapacity: true)
    self.newsHasWaited = false
    self.store.touch()
  }

  func publish(_ paths: [(destination: Destination, path: Path)]) {
    for (destination, path) in paths {
      for watcher in (self.watchers[destination] ?? [:]).values { watcher.yield(path) }
    }
  }

  private func log(_ change: Change, _ status: ConnectivityStatus) {
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
