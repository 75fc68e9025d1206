import Connectivity
import ConnectivityProtobuf
import ConnectivityProtocol
import Glibc
import Synchronization
import UnixTransport

/// The active streams and what they subscribe to, for ListClients. Safe to use from any thread.
///
/// The list is limited by the number of streams (D4).
final class ClientList: Sendable {
  enum Subject: Sendable {
    case changes
    case path(destination: String)
    case flows(GuardMailbox)
  }

  struct Client: Sendable {
    let id: ID
    var user: UInt32
    var process: Int32
    var since: Moment
    var subject: Subject
  }

  /// Identifies a stream in the list.
  typealias ID = UInt64

  private struct State {
    var clients: [ID: Client] = [:]
    var last: ID = 0
  }

  private let state = Mutex(State())

  func enter(_ peer: PeerCredentials, _ subject: Subject) -> ID {
    self.state.withLock { state in
      state.last += 1
      state.clients[state.last] = Client(
        id: state.last, user: peer.uid, process: peer.pid, since: Moment(), subject: subject)
      return state.last
    }
  }

  func leave(_ id: ID) { self.state.withLock { _ = $0.clients.removeValue(forKey: id) } }

  /// Returns the streams of a user, oldest first. Root and connd's own user get all streams.
  func clients(for user: UInt32, ownUser: UInt32 = geteuid()) -> [Client] {
    let all = self.state.withLock { $0.clients }
    return all.sorted { $0.key < $1.key }.map(\.value).filter {
      user == 0 || user == ownUser || $0.user == user
    }
  }
}

extension Connectivity_V1_Client {
  /// - Parameter flows: The number of flows of each client of `Guard`, by client number.
  init(_ client: ClientList.Client, flows: [UInt64: Int]) {
    self.init()
    self.process = UInt32(clamping: client.process)
    self.user = client.user
    self.startTime = Google_Protobuf_Timestamp(client.since.time)
    switch client.subject {
    case .changes: self.watch = Connectivity_V1_WatchingClient()
    case .path(let destination): self.path = .with { $0.destination = destination }
    case .flows(let mailbox):
      self.guarding = .with {
        $0.flows = UInt32(clamping: flows[mailbox.number] ?? 0)
        guard let notice = mailbox.lastNotice else { return }
        $0.reason = Connectivity_V1_InvalidationReason(notice.reason)
        $0.severity = Connectivity_V1_InvalidationSeverity(notice.severity)
        $0.invalidationTime = Google_Protobuf_Timestamp(notice.moment.time)
      }
    }
  }
}
