internal import ConnectivityProtocol
private import Synchronization

/// Follows connd: reports the current status, and then each change in order, across restarts of
/// connd.
///
/// 1. The first event is a snapshot. With `since` it is the first change after that generation, or
///    a gap if connd no longer has it. It is `disconnected` if connd is not running.
/// 2. A lost connection is reported once. It is retried after 100 ms, and then in growing intervals
///    of at most 2 s, and resumes from the last generation received.
package final class StatusFollower: Sendable {
  private let socket: String
  private let connector: any Connector
  private let kinds: Set<StatusEvent.Kind>
  private let progress: Mutex<Progress>

  /// - Parameters:
  ///   - socket: The path of connd's socket.
  ///   - connector: Makes the connections.
  ///   - since: The last generation that is already known, or `nil`.
  ///   - kinds: The kinds of changes to receive; empty means all.
  package init(
    socket: String, through connector: any Connector, since: UInt64? = nil,
    kinds: Set<StatusEvent.Kind> = []
  ) {
    self.socket = socket
    self.connector = connector
    self.kinds = kinds
    self.progress = Mutex(Progress(since: since))
  }

  /// Receives the events. The next event is not read before it returns. If it throws, the stream
  /// ends.
  package typealias Receiver = @Sendable (StatusEvent) async throws -> Void

  /// Connects, reads, and reconnects.
  ///
  /// - Throws: `CancellationError`, or the error of the receiver.
  package func run(_ tell: @escaping Receiver) async throws {
    while true {
      let error = try await self.connection(tell)
      let (event, pause) = self.progress.withLock { $0.lost(error) }
      if let event { try await tell(event) }
      try await Task.sleep(for: pause)
    }
  }

  /// Wraps an error of the receiver.
  private struct Refusal: Error { var error: any Error }

  /// Reads from one connection until it ends, and returns the reason.
  private func connection(_ receiver: @escaping Receiver) async throws -> any Error {
    let tell: Receiver = { event in
      do { try await receiver(event) } catch { throw Refusal(error: error) }
    }
    do {
      let request = self.progress.withLock { $0.request(self.kinds) }
      try await self.connector.watch(request, at: self.socket) {
        if let event = self.progress.withLock({ $0.accepted() }) { try await tell(event) }
      } _: { message in
        if let event = try self.progress.withLock({ try $0.received(message) }) {
          try await tell(event)
        }
      }
      return ConndError.notThere("connd ended the stream")
    } catch let refusal as Refusal {
      throw refusal.error
    } catch {
      return await self.connector.reading(error, of: self.socket)
    }
  }
}

/// The progress of a stream, and the next event to report.
struct Progress: Sendable {
  /// The last generation received.
  private(set) var generation: UInt64?
  private var outage = Outage()

  init(since generation: UInt64?) {
    self.generation = generation
  }

  func request(_ kinds: Set<StatusEvent.Kind>) -> Connectivity_V1_WatchRequest {
    var request = Connectivity_V1_WatchRequest()
    if let generation = self.generation { request.sinceGeneration = generation }
    request.events = StatusEvent.Kind.allCases.filter(kinds.contains).map { kind in
      switch kind {
      case .transition: .transition
      case .path: .path
      case .invalidation: .invalidation
      case .dns: .dns
      }
    }
    return request
  }

  /// connd accepted the request.
  mutating func accepted() -> StatusEvent? {
    self.outage.accepted() ? .resumed(self.generation) : nil
  }

  /// connd sent a message. An unknown message from a newer connd only advances the generation.
  mutating func received(_ message: Connectivity_V1_WatchResponse) throws -> StatusEvent? {
    let event = try WatchEvent(message)
    self.generation = message.generation
    self.outage.received()
    switch event {
    case .snapshot(let snapshot): return .snapshot(snapshot)
    case .change(let change): return .change(change)
    case .gap(let snapshot): return .gap(snapshot)
    case nil: return nil
    }
  }

  /// The connection ended or failed. Returns what to report, and the pause before the next attempt.
  mutating func lost(_ error: any Error) -> (StatusEvent?, pause: Duration) {
    let (error, pause) = self.outage.lost(error)
    return (error.map { .disconnected($0) }, pause)
  }
}
