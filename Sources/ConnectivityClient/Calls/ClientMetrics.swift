internal import Connectivity
internal import CoreMetrics
private import NIOCore

#if canImport(Glibc)
  private import Glibc
#elseif canImport(Musl)
  private import Musl
#else
  private import Darwin
#endif

/// The measurements of a channel or a handler, for swift-metrics.
struct ClientMetrics: Sendable {
  private let own: (any MetricsFactory)?

  /// - Parameter factory: `nil` means the process's factory, which may be chosen later.
  init(_ factory: (any MetricsFactory)?) { self.own = factory }

  private var factory: any MetricsFactory { self.own ?? MetricsSystem.factory }

  /// Counts an invalidation of a connection.
  func invalidated(_ invalidation: InvalidationError) {
    self.count(
      "connectivity_client_invalidations",
      [
        ("reason", invalidation.reason.rawValue), ("severity", invalidation.severity.rawValue),
      ])
  }

  /// Counts the end of a connection that was ready, as gRPC's other libraries do (gRFC A94). If
  /// connd's advice ended the connection, the error is `connd` and the reason.
  func disconnected(
    from target: String, by invalidation: InvalidationError?, _ error: (any Error)?
  ) {
    self.count(
      "grpc.subchannel.disconnections",
      [
        ("grpc.target", target),
        (
          "grpc.disconnect_error",
          invalidation.map { "connd \($0.reason.rawValue)" } ?? Self.word(for: error)
        ),
      ])
  }

  private static func word(for error: (any Error)?) -> String {
    guard let error = error as? IOError else { return "unknown" }
    return switch error.errnoCode {
    case ECONNRESET: "connection reset"
    case ETIMEDOUT: "connection timed out"
    case ECONNABORTED: "connection aborted"
    default: "socket error"
    }
  }

  /// Counts a call or a connection that was refused, because it may not use the network.
  func refused(_ reason: NetworkUnavailableError.Reason) {
    self.count("connectivity_client_refusals", [("reason", reason.rawValue)])
  }

  /// Records how long a channel took to replace a lost connection.
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

  /// - Returns: The time once the channel is connected again, otherwise `nil`.
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
