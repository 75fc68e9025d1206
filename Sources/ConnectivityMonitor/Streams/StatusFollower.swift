package import GRPCCore
package import Logging

/// Follows connd: reports the current status, and then each change in order, across restarts of
/// connd.
///
/// 1. The first event is a snapshot. With `since` it is the first change after that generation, or
///    a gap if connd no longer has it. It is `disconnected` if connd is not running.
/// 2. A lost connection is reported once. It is retried after 100 ms, then in growing intervals of
///    at most a minute, and as soon as connd's socket appears. It resumes from the last generation
///    received.
package typealias StatusFollower = Follower<FollowedStatus>

extension Follower<FollowedStatus> {
  /// - Parameters:
  ///   - socket: The path of connd's socket.
  ///   - connector: Makes the connections.
  ///   - since: The last generation that is already known, or `nil`.
  ///   - kinds: The kinds of changes to receive; empty means all.
  ///   - logger: Logs when connd goes away, and when it is back.
  package convenience init(
    socket: String, through connector: Connector, since: UInt64? = nil,
    kinds: Set<StatusEvent.Kind> = [], logger: Logger? = nil
  ) {
    self.init(
      FollowedStatus(since: since, kinds), socket: socket, through: connector, logger: logger)
  }
}

/// The progress of a stream of changes, and the next event to report.
package struct FollowedStatus: FollowedState {
  package static let method = MethodDescriptor.connd("Watch")

  private let kinds: Set<StatusEvent.Kind>
  /// The last generation received.
  private(set) var generation: UInt64?
  private var outage = Outage()

  init(since generation: UInt64?, _ kinds: Set<StatusEvent.Kind> = []) {
    self.generation = generation
    self.kinds = kinds
  }

  package var request: [UInt8] { WatchMessage.request(since: self.generation, self.kinds) }

  package mutating func accepted() -> StatusEvent? {
    self.outage.accepted() ? .resumed(self.generation) : nil
  }

  /// An unknown message from a newer connd only advances the generation.
  package mutating func received(_ message: [UInt8]) throws -> StatusEvent? {
    let message = try WatchMessage(message)
    self.generation = message.generation
    self.outage.received()
    return message.event
  }

  package mutating func lost(_ error: any Error) -> (StatusEvent?, pause: Duration) {
    let (error, pause) = self.outage.lost(error)
    return (error.map { .disconnected($0) }, pause)
  }
}
