internal import ConnectivityProtocol
private import Synchronization

/// Follows connd: the present status, and then every change, in order, also across restarts of connd.
///
/// 1. The first event is a snapshot; with `since` it is the first change after that generation, or a gap where connd no
///    longer knows it; `disconnected` where connd is not there.
/// 2. A connection that is lost is told once, tried again after 100 ms, then in growing pauses of at most 2 s, and resumed
///    from the last generation seen.
package final class StatusFollower: Sendable {
  private let socket: String
  private let dialler: any Dialler
  private let kinds: Set<StatusEvent.Kind>
  private let progress: Mutex<Progress>

  /// - Parameters:
  ///   - socket: The path of connd's socket.
  ///   - dialler: What makes the connections.
  ///   - since: The last generation that is known already; `nil` for none.
  ///   - kinds: The kinds of changes to be told of; empty means all.
  package init(
    socket: String, through dialler: any Dialler, since: UInt64? = nil,
    kinds: Set<StatusEvent.Kind> = []
  ) {
    self.socket = socket
    self.dialler = dialler
    self.kinds = kinds
    self.progress = Mutex(Progress(since: since))
  }

  /// Who hears of an event; the next one is not read before it returns. Where it throws, the stream ends.
  package typealias Receiver = @Sendable (StatusEvent) async throws -> Void

  /// Connects, reads, and connects again.
  ///
  /// - Throws: `CancellationError`, or what the receiver throws.
  package func run(_ tell: @escaping Receiver) async throws {
    while true {
      let error = try await self.connection(tell)
      let (event, pause) = self.progress.withLock { $0.lost(error) }
      if let event { try await tell(event) }
      try await Task.sleep(for: pause)
    }
  }

  /// What the receiver has thrown.
  private struct Refusal: Error { var error: any Error }

  /// Reads one connection to its end, and returns why it ended.
  private func connection(_ receiver: @escaping Receiver) async throws -> any Error {
    let tell: Receiver = { event in
      do { try await receiver(event) } catch { throw Refusal(error: error) }
    }
    do {
      let request = self.progress.withLock { $0.request(self.kinds) }
      try await self.dialler.watch(request, at: self.socket) {
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
      return await self.dialler.reading(error, of: self.socket)
    }
  }
}

/// How far a stream has come, and what is to be told next.
struct Progress: Sendable {
  /// The last generation seen.
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

  /// connd took the request.
  mutating func accepted() -> StatusEvent? {
    self.outage.accepted() ? .resumed(self.generation) : nil
  }

  /// connd sent a message; one that a newer connd invented moves the generation and nothing else.
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

  /// The connection ended, or there was none: what to tell, and how long to wait before the next one.
  mutating func lost(_ error: any Error) -> (StatusEvent?, pause: Duration) {
    let (error, pause) = self.outage.lost(error)
    return (error.map { .disconnected($0) }, pause)
  }
}
