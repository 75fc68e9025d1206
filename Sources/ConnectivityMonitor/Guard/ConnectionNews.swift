package import Connectivity

/// The known state of a guarded connection. Converts the guard's events into events for the
/// connection's owner.
package struct ConnectionNews: Sendable {
  package private(set) var path: KernelPath?
  /// Why the connection is not viable, or `nil` if it is.
  private var obstacle: ConnectionEvent.NotViableReason?
  /// The invalidation that is the obstacle.
  private var invalidation: InvalidationError?
  private var hasBetterPath = false
  private var unguardedReason: ConndError?

  package init() {}

  /// The events that describe the present state.
  package var summary: [ConnectionEvent] {
    var events: [ConnectionEvent] = []
    if let path = self.path { events.append(.pathChanged(path)) }
    if let obstacle = self.obstacle {
      if let invalidation = self.invalidation { events.append(.invalidated(invalidation)) }
      events.append(.notViable(obstacle))
    }
    if self.hasBetterPath { events.append(.betterPathAvailable) }
    if let reason = self.unguardedReason { events.append(.unguarded(reason)) }
    return events
  }

  /// Records an event of the connection's flow.
  ///
  /// - Parameter access: The networks that the connection may use.
  /// - Returns: The resulting events, in order. An invalidation comes before its effect on the
  ///   viability.
  package mutating func record(
    _ event: FlowEvent, for access: NetworkAccess
  ) -> [ConnectionEvent] {
    if case .refused(let refusal) = event { return self.unguarded(ConndError(refusal)) }
    self.unguardedReason = nil
    var events: [ConnectionEvent] = []
    if let path = event.ownPath {
      events = self.changed(to: path) + self.viability(Self.obstacle(on: path))
    }
    if case .betterPathGone = event { events += self.betterPath(false) }
    guard let invalidation = access.invalidation(by: event) else { return events }
    events.append(.invalidated(invalidation))
    if invalidation.reason == .betterPath { return events + self.betterPath(true) }
    if invalidation.severity == .destroy {
      self.invalidation = invalidation
      return events + self.viability(.invalidated(invalidation.reason))
    }
    return events + self.viability(Self.obstacle(on: invalidation.path))
  }

  /// Records that the connection is not guarded.
  package mutating func unguarded(_ reason: ConndError) -> [ConnectionEvent] {
    self.unguardedReason = reason
    return [.unguarded(reason)]
  }

  /// Records that a new connection has replaced the previous one.
  ///
  /// - Parameters:
  ///   - path: The path of the new connection, or `nil` if unknown.
  ///   - reason: Why the connection is not guarded, or `nil` if it is.
  package mutating func begin(
    on path: KernelPath?, unguarded reason: ConndError? = nil
  ) -> [ConnectionEvent] {
    self.unguardedReason = reason
    let unguarded = reason.map { [ConnectionEvent.unguarded($0)] } ?? []
    guard let path else {
      self.path = nil
      return self.viability(nil) + self.betterPath(false) + unguarded
    }
    let events = self.changed(to: path)
    let obstacle = path.status == .unknown ? nil : Self.obstacle(on: path)
    return events + self.viability(obstacle) + self.betterPath(false) + unguarded
  }

  private mutating func changed(to path: KernelPath) -> [ConnectionEvent] {
    defer { self.path = path }
    return self.path.map(path.isNew(after:)) ?? true ? [.pathChanged(path)] : []
  }

  private static func obstacle(on path: KernelPath?) -> ConnectionEvent.NotViableReason? {
    path?.status == .satisfied ? nil : .path(path?.reason)
  }

  private mutating func viability(
    _ obstacle: ConnectionEvent.NotViableReason?
  ) -> [ConnectionEvent] {
    let wasViable = self.obstacle == nil
    self.obstacle = obstacle
    guard let obstacle else {
      self.invalidation = nil
      return wasViable ? [] : [.viable]
    }
    return wasViable ? [.notViable(obstacle)] : []
  }

  private mutating func betterPath(_ exists: Bool) -> [ConnectionEvent] {
    defer { self.hasBetterPath = exists }
    if exists == self.hasBetterPath { return [] }
    return [exists ? .betterPathAvailable : .betterPathGone]
  }
}
