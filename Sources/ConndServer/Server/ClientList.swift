import Connectivity
import ConnectivityProtocol
import Glibc
import SwiftProtobuf
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
    let client = Client(
      user: peer.uid, process: peer.pid, since: Moment(), subject: subject)
    return self.state.withLock { state in
      state.last += 1
      state.clients[state.last] = client
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

extension Connectivity_V1_ListClientsResponse {
  /// - Parameter flows: The number of flows of each client of `Guard`, by client number.
  init(_ clients: [ClientList.Client], flows: [UInt64: Int]) {
    self.init()
    self.clients = clients.map { client in
      .with {
        $0.process = UInt32(clamping: client.process)
        $0.user = client.user
        $0.since = Google_Protobuf_Timestamp(client.since.time)
        switch client.subject {
        case .changes: $0.watch = Connectivity_V1_WatchingClient()
        case .path(let destination): $0.path = .with { $0.destination = destination }
        case .flows(let mailbox):
          $0.guarding = .with {
            $0.flows = UInt32(clamping: flows[mailbox.number] ?? 0)
            guard let notice = mailbox.lastNotice else { return }
            $0.reason = Connectivity_V1_InvalidationReason(notice.reason)
            $0.severity = Connectivity_V1_InvalidationSeverity(notice.severity)
            $0.time = Google_Protobuf_Timestamp(notice.moment.time)
          }
        }
      }
    }
  }
}
