internal import Connectivity
internal import CoreMetrics

/// The measurements of a channel or a handler, for swift-metrics.
struct ClientMetrics: Sendable {
  private let own: (any MetricsFactory)?

  /// - Parameter factory: `nil` means the factory of the process, which it may choose later.
  init(_ factory: (any MetricsFactory)?) { self.own = factory }

  private var factory: any MetricsFactory { self.own ?? MetricsSystem.factory }

  /// A connection is no longer viable, or may not be.
  func invalidated(_ invalidation: FlowInvalidation) {
    self.count(
      "connectivity_client_invalidations",
      [
        ("reason", invalidation.reason.rawValue), ("severity", invalidation.severity.rawValue),
      ])
  }

  /// A call or a connection was refused, because it may not use the network.
  func refused(_ reason: NetworkUnavailable.Reason) {
    self.count("connectivity_client_refusals", [("reason", reason.rawValue)])
  }

  /// A channel whose connection was lost is connected again.
  func reconnected(after duration: Duration) {
    let nanoseconds = Int64((duration / .nanoseconds(1)).rounded())
    Timer(label: "connectivity_client_reconnect", dimensions: [], factory: self.factory)
      .recordNanoseconds(nanoseconds)
  }

  private func count(_ label: String, _ dimensions: [(String, String)]) {
    Counter(label: label, dimensions: dimensions, factory: self.factory).increment()
  }
}

/// Measures the time from the first attempt after a lost connection to the next connection.
struct ReconnectTimer: Hashable, Sendable {
  private var wasReady = false
  private var start: ContinuousClock.Instant?

  /// - Returns: The time, once the channel is connected again.
  mutating func report(
    _ state: ConnectivityState, now: ContinuousClock.Instant
  ) -> Duration? {
    switch state {
    case .connecting:
      if self.wasReady, self.start == nil { self.start = now }
      return nil
    case .ready:
      defer { (self.wasReady, self.start) = (true, nil) }
      return self.start?.duration(to: now)
    // No call waits for the connection any more.
    case .idle: self.start = nil
    // A pause between attempts is part of the time.
    case .transientFailure, .shutdown: break
    }
    return nil
  }
}
