import Connectivity
import ConnectivityProtobuf
import ConnectivityProtocol
import CoreMetrics
import GRPCCore
import UnixTransport

/// Implements the `Watch` call. Each change is sent to all subscribers in one turn of the reactor,
/// without a task per subscriber.
///
/// Used on the reactor's thread only.
///
/// Implements rule D4.
final class WatchService: @unchecked Sendable {
  private let store: Store
  private let statistics: Statistics
  private let clients: ClientList
  private var streams: [Subscriber.ID: ServerStream] = [:]

  static var method: String {
    Connectivity_V1_Connectivity.Method.Watch.descriptor.fullyQualifiedMethod
  }

  init(store: Store, statistics: Statistics, clients: ClientList, on reactor: Reactor) {
    self.store = store
    self.clients = clients
    self.statistics = statistics
    store.onNews { reactor.executeNext { self.resumeAll() } }
  }

  func begin(
    _ request: [UInt8], of peer: PeerCredentials, _ stream: ServerStream
  ) throws(RPCError) -> any MessageSource {
    let watch: Connectivity_V1_WatchRequest
    do {
      watch = try Connectivity_V1_WatchRequest(serializedBytes: request)
    } catch {
      throw RPCError(code: .invalidArgument, message: "invalid WatchRequest: \(error)")
    }
    let kinds = try EventKinds(watch.events)
    let since = watch.hasSinceGeneration ? watch.sinceGeneration : nil
    let subscriber = self.store.admit(since: since)
    self.statistics.subscriptions.increment()
    self.streams[subscriber.id] = stream
    return WatchSource(self, subscriber, kinds, self.clients.enter(peer, .changes))
  }

  private func resumeAll() {
    for stream in self.streams.values { stream.resume() }
  }

  fileprivate func next(for subscriber: inout Subscriber) -> Store.Reading? {
    let reading = self.store.next(for: &subscriber)
    if case .gap = reading { self.statistics.gaps.increment() }
    return reading
  }

  fileprivate func leave(_ subscriber: Subscriber, _ client: ClientList.ID) {
    self.clients.leave(client)
    self.streams[subscriber.id] = nil
    self.store.leave(subscriber)
  }
}

/// A subscriber's position in the history. Messages are read as the client accepts them.
private final class WatchSource: MessageSource {
  private let service: WatchService
  private let kinds: EventKinds
  private let client: ClientList.ID
  private var subscriber: Subscriber
  /// Changes that were read and not yet sent.
  private var unsent: ArraySlice<Published> = []

  init(
    _ service: WatchService, _ subscriber: Subscriber, _ kinds: EventKinds, _ client: ClientList.ID
  ) {
    self.client = client
    self.service = service
    self.subscriber = subscriber
    self.kinds = kinds
  }

  func next() -> NextMessage {
    typealias Response = Connectivity_V1_WatchResponse
    let namespace = ProcessNamespace.reported
    while true {
      while let published = self.unsent.popFirst() {
        if self.kinds.contain(published.change) { return .message(published.message) }
      }
      switch self.service.next(for: &self.subscriber) {
      case .snapshot(let snapshot):
        return .message(Response.snapshot(snapshot, networkNamespace: namespace).serializedBytes())
      case .gap(let snapshot):
        return .message(Response.gap(snapshot, networkNamespace: namespace).serializedBytes())
      case .changes(let changes): self.unsent = changes[...]
      case .finished: return .end(Status(RPCError.stopping))
      case nil: return .later
      }
    }
  }

  func close() {
    self.service.leave(self.subscriber, self.client)
  }
}

/// The kinds of changes that a subscriber requested.
private struct EventKinds {
  private var transitions = true
  private var paths = true
  private var invalidations = true
  private var dns = true

  /// - Parameter kinds: The requested kinds. An empty list means all.
  init(_ kinds: [Connectivity_V1_EventKind]) throws(RPCError) {
    if kinds.isEmpty { return }
    self.transitions = kinds.contains(.transition)
    self.paths = kinds.contains(.path)
    self.invalidations = kinds.contains(.invalidation)
    self.dns = kinds.contains(.dns)
    for kind in kinds {
      switch kind {
      case .transition, .path, .invalidation, .dns: continue
      case .unspecified, .UNRECOGNIZED:
        throw RPCError(
          code: .invalidArgument, message: "events: \(kind.rawValue) is not a kind of event")
      }
    }
  }

  func contain(_ change: ConnectivityChange) -> Bool {
    switch change {
    case .transition: self.transitions
    case .path: self.paths
    case .invalidation: self.invalidations
    case .dns: self.dns
    }
  }
}
