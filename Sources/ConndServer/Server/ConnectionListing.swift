import Connectivity
import ConnectivityProtocol
import ConnectivityRules
import Glibc
import Netlink

/// Lists this machine's TCP connections for clients, away from the monitor thread.
struct ConnectionListing: Sendable {
  /// The maximum number of connections on a page. Each has a few hundred bytes.
  static let maxPage = 4096
  /// The number of connections that the monitor thread judges in one query: about a third of a
  /// millisecond.
  static let part = 16

  /// Opens a socket of the kernel's socket diagnosis.
  var open: @Sendable () throws(NetlinkError) -> any DatagramSocket = {
    () throws(NetlinkError) in try KernelSockets().open(.socketDiagnosis)
  }

  /// Returns the first connections of a user on a page and after it, sorted by their keys. Root
  /// and connd's own user get those of all users. Keeps few, because a server may have millions.
  ///
  /// - Parameter count: The maximum number of connections.
  func connections(
    of user: UInt32, on page: PageRequest, count: Int, ownUser: UInt32 = geteuid()
  ) async throws(NetlinkError) -> [OpenConnection] {
    let dump = try SocketDump(on: try self.open())
    var kept: [(key: String, connection: OpenConnection)] = []
    while let part = try dump.next() {
      let own = part.filter { user == 0 || user == ownUser || $0.destination.uid == user }
        .map { (key: $0.key, connection: $0) }.sorted { $0.key < $1.key }
      kept += page.rest(of: own, key: \.key)
      if kept.count > 4 * count {
        kept.sort { $0.key < $1.key }
        kept.removeLast(kept.count - count)
      }
      // Other clients' requests come in between.
      await Task.yield()
    }
    return kept.sorted { $0.key < $1.key }.prefix(count).map(\.connection)
  }
}

extension OpenConnection {
  /// Sorts by the connection's addresses and ports.
  var key: String {
    let transport = self.destination.transport
    return [
      self.destination.source?.description ?? "", "\(transport?.localPort ?? 0)",
      self.destination.address.description, "\(transport?.remotePort ?? 0)",
      "\(self.destination.outLink ?? 0)",
    ].joined(separator: " ")
  }

  /// The registration by which it is judged. A connection existed when its peer was last heard, so
  /// it may have missed only what was published later.
  ///
  /// - Parameters:
  ///   - past: The published changes, oldest first.
  ///   - now: The time of the report.
  func registration(_ number: UInt64, _ past: [Published], at now: WallTime)
    -> FlowTable.Registration
  {
    let heard = WallTime(
      microseconds: now.microseconds - Int64(self.report.silence / .microseconds(1)))
    let next = past.first { $0.change.time > heard }
    var destination = self.destination
    destination.source = nil
    return FlowTable.Registration(
      key: FlowTable.Key(mailbox: 0, id: number),
      flow: Flow(destination, local: self.destination.source),
      sinceGeneration: (next?.change.generation).map { $0 - 1 } ?? .max)
  }
}

extension Connectivity_V1_Connection {
  init(_ connection: OpenConnection, _ report: ConnectionReport) {
    self.init()
    self.local = connection.destination.source?.description ?? ""
    self.localPort = UInt32(connection.destination.transport?.localPort ?? 0)
    self.remote = connection.destination.address.description
    self.remotePort = UInt32(connection.destination.transport?.remotePort ?? 0)
    self.user = connection.destination.uid
    self.socketInode = connection.inode
    self.path = Connectivity_V1_Path(report.path)
    if let link = report.link {
      (self.interface, self.interfaceState) = (link.name, link.stateAsPort.message)
    }
    if let verdict = report.verdict {
      self.reason = Connectivity_V1_InvalidationReason(verdict.reason)
      self.severity = Connectivity_V1_InvalidationSeverity(verdict.severity)
    }
    if let socket = report.socket {
      self.socket = Connectivity_V1_SocketTestimony(SocketTestimony(socket))
    }
  }
}
