private import ConnectivityProtobuf
package import ConnectivityProtocol
package import GRPCCore
package import Logging

/// Follows connd: reports the current status, and then each change in order, across restarts of
/// connd.
///
/// 1. The first event is a snapshot. With `since`, it is the first change after that generation, or
///    a gap if connd no longer has that change. It is `disconnected` if connd is not running.
/// 2. A lost connection is reported once. The follower connects again after 100 ms, then in growing
///    intervals of at most a minute, and as soon as connd's socket appears. The events resume from
///    the last generation received.
package typealias StatusFollower = Follower<FollowedStatus>

extension Follower<FollowedStatus> {
  /// - Parameters:
  ///   - socket: The path of connd's socket.
  ///   - connector: Makes the connections.
  ///   - since: The last generation that is already known, or `nil`.
  ///   - kinds: The kinds of changes to receive; empty means all.
  ///   - namespace: The inode of the network namespace to follow. A connd in another one is as good
  ///     as absent (C7). `nil` follows any connd.
  ///   - logger: Logs when connd goes away, and when it is back.
  package convenience init(
    socket: String, through connector: Connector, since: UInt64? = nil,
    kinds: Set<StatusEvent.Kind> = [], of namespace: UInt64? = nil, logger: Logger? = nil
  ) {
    self.init(
      FollowedStatus(since: since, kinds), socket: socket, through: connector, of: namespace,
      logger: logger)
  }
}

/// The progress of a stream of changes, and the next event to report.
package struct FollowedStatus: FollowedState {
  package static let method = Connectivity_V1_Connectivity.Method.Watch.descriptor

  private let kinds: Set<StatusEvent.Kind>
  /// The last generation received.
  private(set) var generation: UInt64?
  private var outage = Outage()

  init(since generation: UInt64?, _ kinds: Set<StatusEvent.Kind> = []) {
    self.generation = generation
    self.kinds = kinds
  }

  package var request: [UInt8] {
    var request = Connectivity_V1_WatchRequest()
    if let generation = self.generation { request.sinceGeneration = generation }
    request.events = StatusEvent.Kind.allCases.filter(self.kinds.contains).map(\.wireValue)
    return request.serializedBytes()
  }

  package mutating func accepted() -> StatusEvent? {
    self.outage.accepted() ? .resumed(after: self.generation) : nil
  }

  package mutating func accepted(by foreign: ForeignNamespace) -> StatusEvent? {
    self.outage.accepted(by: foreign).map { .disconnected($0) }
  }

  /// An unknown message from a newer connd only advances the generation.
  package mutating func received(_ message: [UInt8]) throws -> StatusEvent? {
    let response = try Connectivity_V1_WatchResponse(serializedBytes: message)
    let event = try WatchEvent(response)
    self.generation = response.generation
    self.outage.received()
    return event.map { StatusEvent($0) }
  }

  package mutating func lost(_ error: any Error) -> (StatusEvent?, pause: Duration) {
    let (error, pause) = self.outage.lost(error)
    return (error.map { .disconnected($0) }, pause)
  }
}

extension StatusEvent {
  fileprivate init(_ event: WatchEvent) {
    switch event {
    case .snapshot(let snapshot): self = .snapshot(snapshot)
    case .change(let change): self = .change(change)
    case .gap(let snapshot): self = .gap(snapshot)
    }
  }
}

extension StatusEvent.Kind: WireEnum {
  package var wireValue: Connectivity_V1_EventKind {
    switch self {
    case .transition: .transition
    case .path: .path
    case .invalidation: .invalidation
    case .dns: .dns
    }
  }
}
