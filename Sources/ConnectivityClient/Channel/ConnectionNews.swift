internal import Connectivity
internal import ConnectivityMonitor

/// The known state of a guarded connection. Converts the guard's events into events for the
/// connection's owner.
struct ConnectionNews: Sendable {
  private(set) var path: KernelPath?
  private var isViable = true
  private var hasBetterPath = false

  /// Records an event of the connection's flow.
  ///
  /// - Parameter access: The networks that the connection may use.
  /// - Returns: The resulting events, in order. An invalidation comes before its effect on the
  ///   viability.
  mutating func record(
    _ event: FlowEvent, for access: NetworkAccess
  ) -> [NetworkAwareTransport.Event] {
    var news: [NetworkAwareTransport.Event] = []
    if case .refused(let refusal) = event { news.append(.unguarded(refusal.message)) }
    if let path = event.ownPath {
      if path != self.path { news.append(.path(path)) }
      self.path = path
      news += self.viability(path.status == .satisfied)
    }
    if case .betterPathGone = event { news += self.betterPath(false) }
    guard let invalidation = access.invalidation(by: event) else { return news }
    news.append(.invalidated(invalidation))
    if invalidation.reason == .betterPath {
      news += self.betterPath(true)
    } else {
      let isSatisfied = invalidation.path?.status == .satisfied
      news += self.viability(invalidation.severity != .destroy && isSatisfied)
    }
    return news
  }

  /// Records that a new connection has replaced the previous one.
  ///
  /// - Parameter path: The path of the new connection, or `nil` if unknown.
  mutating func begin(on path: KernelPath?) -> [NetworkAwareTransport.Event] {
    var news: [NetworkAwareTransport.Event] = []
    if let path, path != self.path { news.append(.path(path)) }
    self.path = path
    let isViable = path?.status == .satisfied || path?.status == .unknown || path == nil
    return news + self.viability(isViable) + self.betterPath(false)
  }

  private mutating func viability(_ isViable: Bool) -> [NetworkAwareTransport.Event] {
    defer { self.isViable = isViable }
    return isViable == self.isViable ? [] : [.viability(isViable)]
  }

  private mutating func betterPath(_ exists: Bool) -> [NetworkAwareTransport.Event] {
    defer { self.hasBetterPath = exists }
    return exists == self.hasBetterPath ? [] : [.betterPath(exists)]
  }
}
