private import ConnectivityProtobuf
private import ConnectivityProtocol
package import GRPCCore
internal import Logging
private import Synchronization

/// A call with one request and a stream of responses that report a state.
package protocol FollowedState: Sendable {
  associatedtype Event: Sendable

  static var method: MethodDescriptor { get }
  /// The request that continues after the last response, as protobuf.
  var request: [UInt8] { get }
  /// Records that connd accepted the request. Returns the event to report, if any.
  mutating func accepted() -> Event?
  /// Records that a connd in another network namespace accepted the request, which is as good as
  /// absent (C7). Returns the event to report, if any.
  mutating func accepted(by foreign: ForeignNamespace) -> Event?
  /// Reads a message from connd. Returns the event to report, if any.
  mutating func received(_ message: [UInt8]) throws -> Event?
  /// Records a lost connection. Returns the event to report, if any, and the next pause.
  mutating func lost(_ error: any Error) -> (Event?, pause: Duration)
}

/// Follows a state that connd reports, across restarts of connd.
///
/// A lost connection is reported once. The follower connects again after 100 ms, then in growing
/// intervals of at most a minute, and as soon as connd's socket appears.
package final class Follower<State: FollowedState>: Sendable {
  private let socket: String
  private let connector: Connector
  private let namespace: UInt64?
  private let state: Mutex<State>
  private let log: AbsenceLog

  /// - Parameters:
  ///   - socket: The path of connd's socket.
  ///   - connector: Makes the connections.
  ///   - namespace: The inode of the network namespace to follow. A connd in another one is
  ///     reported as a loss, and its messages are ignored. `nil` follows any connd.
  ///   - logger: Logs when connd goes away, and when it is back.
  init(
    _ state: State, socket: String, through connector: Connector, of namespace: UInt64? = nil,
    logger: Logger? = nil
  ) {
    self.socket = socket
    self.connector = connector
    self.namespace = namespace
    self.state = Mutex(state)
    self.log = AbsenceLog(logger)
  }

  /// A receiver of events. The next event is not read before it returns. If it throws, the stream
  /// ends.
  package typealias Receiver = @Sendable (State.Event) async throws -> Void

  /// Connects, reads, and reconnects.
  ///
  /// - Throws: `CancellationError`, or the error of the receiver.
  package func run(_ tell: Receiver) async throws {
    try await self.connector.repeating(at: self.socket) {
      let request = self.state.withLock { $0.request }
      // A resumed stream may begin with changes that do not name the namespace, or with none.
      var foreign: ForeignNamespace?
      try await self.connector.stream(
        State.method, request, at: self.socket,
        asking: self.namespace == nil
          ? nil : Connectivity_V1_Connectivity.Method.GetStatus.descriptor
      ) { message in
        let status = try Connectivity_V1_Status(serializedBytes: message)
        foreign = ForeignNamespace(of: status.networkNamespace, own: self.namespace)
      } accepted: {
        if let foreign {
          let event = self.state.withLock { $0.accepted(by: foreign) }
          self.log.lost(foreign.error, again: event != nil)
          try await self.report(event, to: tell)
        } else {
          self.log.found()
          try await self.report(self.state.withLock { $0.accepted() }, to: tell)
        }
      } _: { message in
        guard foreign == nil else { return }
        try await self.report(try self.state.withLock { try $0.received(message) }, to: tell)
      }
    } lost: { error in
      let (event, pause) = self.state.withLock { $0.lost(error) }
      self.log.lost(error)
      if let event { try await tell(event) }
      return pause
    }
  }

  private func report(_ event: State.Event?, to tell: Receiver) async throws {
    if let event { try await Connector.ReceiverError.marking { try await tell(event) } }
  }
}
