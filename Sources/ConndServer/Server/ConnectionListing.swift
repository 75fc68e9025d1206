import Connectivity
import ConnectivityProtocol
import ConnectivityRules
import Glibc
import Netlink

/// Lists this machine's TCP connections for clients, outside the monitor thread.
struct ConnectionListing: Sendable {
  /// The maximum number of connections on a page. Each has a few hundred bytes.
  static let maxPage = 4096
  /// The number of connections that the monitor thread judges in one query. Such a query takes
  /// about a third of a millisecond.
  static let part = 16
  /// The maximum number of concurrent listings of a user. Further listings wait.
  static let maxPerUser = 2
  /// The memory of the dump's socket, in connd and in the kernel, in bytes.
  static let costOfDump = 96 << 10
  /// The memory of a connection that is kept with its key, in bytes.
  static let costOfConnection = 640

  /// A connection and its sort key.
  struct Entry: Sendable {
    var key: String
    var connection: OpenConnection
    /// Whether this machine accepts connections on the connection's own port.
    var isAccepted = false
    /// The time before the kernel's report.
    var readAt = WallTime(microseconds: 0)
  }

  /// Returns the next connections, or `nil` after the last ones.
  typealias Dump = () throws(NetlinkError) -> [OpenConnection]?

  /// Begins to read the kernel's connections.
  var begin: @Sendable () throws(NetlinkError) -> Dump = { () throws(NetlinkError) in
    let dump = try SocketDump(on: try KernelSockets().open(.socketDiagnosis))
    return { () throws(NetlinkError) in try dump.next() }
  }

  /// Reads the ports on which this machine accepts connections.
  var listening: @Sendable () throws(NetlinkError) -> ListeningPorts = {
    () throws(NetlinkError) in
    try ListeningPorts(on: KernelSockets().open(.socketDiagnosis))
  }

  /// Returns a user's first connections that belong on the page or after it, sorted by key. Root
  /// and connd's own user get the connections of all users. Only slightly more than `count` are
  /// kept in memory, because a server may have millions.
  ///
  /// - Parameters:
  ///   - count: The maximum number of connections.
  ///   - keep: Called before each part with the number of bytes that are kept. An error ends the
  ///     listing.
  func connections(
    of user: UInt32, on page: PageRequest, count: Int, ownUser: UInt32 = geteuid(),
    keep: (_ bytes: Int) throws -> Void
  ) async throws -> [Entry] {
    try keep(Self.costOfDump)
    let listening = try self.listening()
    let next = try self.begin()
    var kept: [Entry] = []
    while true {
      let now = Moment().time
      guard let part = try next() else { break }
      let own = part.filter { user == 0 || user == ownUser || $0.destination.uid == user }
        .map {
          Entry(
            key: $0.key, connection: $0,
            isAccepted: listening.contains($0.destination.transport?.localPort ?? 0), readAt: now)
        }.sorted { $0.key < $1.key }
      kept += page.rest(of: own, key: \.key)
      // Sorts only once a quarter more than `count` is kept, so that few parts need a sort.
      if kept.count > count + count / 4 { kept.keepFirst(count) }
      try keep(Self.costOfDump + kept.count * Self.costOfConnection)
      // Let other clients' requests run in between.
      await Task.yield()
    }
    kept.keepFirst(count)
    return kept
  }
}

extension [ConnectionListing.Entry] {
  /// Sorts by key, and removes all but the first entries.
  fileprivate mutating func keepFirst(_ count: Int) {
    self.sort { $0.key < $1.key }
    self.removeLast(Swift.max(0, self.count - count))
  }
}

extension OpenConnection {
  /// The sort key: the connection's addresses, ports and outgoing link.
  var key: String {
    let transport = self.destination.transport
    return [
      self.destination.source?.description ?? "", "\(transport?.localPort ?? 0)",
      self.destination.address.description, "\(transport?.remotePort ?? 0)",
      "\(self.destination.outLink ?? 0)",
    ].joined(separator: " ")
  }
}

extension ConnectionListing.Entry {
  /// Returns the registration for judging the connection. The connection existed when its peer was
  /// last heard, so it can only have missed later changes.
  ///
  /// - Parameter past: The published changes, oldest first.
  func registration(_ number: UInt64, _ past: [Published]) -> FlowTable.Registration {
    let silence = self.connection.report.silence
    let heard = WallTime(
      microseconds: self.readAt.microseconds - Int64(silence / .microseconds(1)))
    let next = past.first { $0.change.time > heard }
    var destination = self.connection.destination
    destination.source = nil
    return FlowTable.Registration(
      key: FlowTable.Key(mailbox: 0, id: number),
      flow: Flow(destination, local: self.connection.destination.source),
      sinceGeneration: (next?.change.generation).map { $0 - 1 } ?? .max)
  }
}

extension Connectivity_V1_Connection {
  init(_ entry: ConnectionListing.Entry, _ report: ConnectionReport) {
    self.init()
    let connection = entry.connection
    self.local = connection.destination.source?.description ?? ""
    self.localPort = UInt32(connection.destination.transport?.localPort ?? 0)
    self.remote = connection.destination.address.description
    self.remotePort = UInt32(connection.destination.transport?.remotePort ?? 0)
    self.user = connection.destination.uid
    self.socketInode = connection.inode
    self.socketCookie = connection.cookie
    self.tcpState = Connectivity_V1_TcpState(connection.state)
    self.subflow = connection.isSubflow
    self.accepted = entry.isAccepted
    if let group = connection.controlGroup { self.controlGroup = group }
    self.path = Connectivity_V1_Path(report.path)
    if let link = report.link {
      (self.interface, self.interfaceState) = (
        link.name, Connectivity_V1_LinkState(link.stateAsPort)
      )
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

extension Connectivity_V1_TcpState {
  fileprivate init(_ state: TCPState) {
    switch state {
    case .established: self = .established
    case .synSent: self = .synSent
    case .finWait1: self = .finWait1
    case .finWait2: self = .finWait2
    case .closeWait: self = .closeWait
    case .listen: self = .unspecified
    }
  }
}
