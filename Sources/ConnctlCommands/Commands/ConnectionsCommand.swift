import ArgumentParser
import Connectivity
import ConnectivityJSON
import ConnectivityMonitor
import ConnectivityProtocol
import Synchronization

struct ConnectionsCommand: ConnctlCommand {
  static let configuration = CommandConfiguration.describing(
    "connections", "List your TCP connections, and whether they still work.",
    usage: "connctl connections [<options>] [<host:port>...]",
    discussion: """
      Shows for each connection its link, its process, and its state: alive, in grace (its path is \
      gone and may come back), in doubt, to replace (traffic has moved to another path) or \
      dead, with the reason. The worst come first. The state is what “connctl guard” would say.

      Lists your own connections, or those of all users for root. Omits those of loopback addresses. \
      With hosts or ports, lists only the connections that have one of them at either end.

      --watch first prints each connection, and then a line whenever the state of one changes, or \
      one begins or ends.
      """,
    examples: [
      "connctl connections", "connctl connections --dead",
      "sudo connctl connections db.example:5432 :22", "connctl connections --watch",
    ],
    exit: "0 on success; with --dead or with hosts, 1 if no connection is listed.")

  @OptionGroup var options: Options
  @ParentCommand var parent: Connctl

  @Argument(
    help: ArgumentHelp(
      "A host, a port (:22), or both: example.com:443.", valueName: "host:port"),
    transform: Endpoint.init)
  var ends: [Endpoint] = []

  @Flag(help: "List only dead connections.")
  var dead = false

  @Flag(help: "Print each change until interrupted.")
  var watch = false

  func validate() throws {
    for end in self.ends where end.host.isEmpty && end.port == 0 {
      throw ValidationError("a host or a port is missing")
    }
  }

  func run(through connector: Connector) async throws {
    let filter = try ConnectionFilter(self.ends, onlyDead: self.dead)
    if self.watch { return try await self.follow(filter, through: connector) }
    let connections = try await self.connections(filter, isFirst: true, through: connector)
    if self.json {
      for connection in connections.worstFirst {
        try self.console.print(try JSON.connection(connection))
      }
    } else if connections.isEmpty {
      self.console.remark(self.dead ? "no dead connection" : "no connection")
    } else {
      try self.console.print(self.console.style.connections(connections))
    }
    if connections.isEmpty, self.dead || !self.ends.isEmpty { throw ExitStatus.doesNotHold }
  }

  /// - Parameter isFirst: Whether to say that the connections are those of another namespace.
  private func connections(
    _ filter: ConnectionFilter, isFirst: Bool = false, through connector: Connector
  ) async throws -> [ListedConnection] {
    let (all, foreign) = try await connector.withServices(at: self.socket) { connd in
      (try await connd.connections(), isFirst ? try await connd.foreignNamespace() : nil)
    }
    if let foreign { self.console.remark(foreign.remark) }
    let matching = all.filter(filter.matches)
    let owners = SocketOwners.read(Set(matching.map(\.socketInode)))
    return matching.map { ListedConnection(connection: $0, owner: owners[$0.socketInode]) }
  }

  // MARK: - Changes

  /// The interval between listings. connd sends no message when a connection begins or ends.
  private static let interval = Duration.seconds(1)

  private func follow(_ filter: ConnectionFilter, through connector: Connector) async throws {
    self.console.endWithReader()
    var changes = ConnectionChanges()
    try self.show(
      changes.update(to: try await self.connections(filter, isFirst: true, through: connector)))
    let (turns, take) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask {
        try await StatusFollower(socket: self.socket, through: connector).run { event in
          if case .disconnected(let error) = event { throw error }
          take.yield()
        }
      }
      group.addTask {
        while true {
          try await Task.sleep(for: Self.interval)
          take.yield()
        }
      }
      group.addTask { [changes] in
        var changes = changes
        for await _ in turns {
          try self.show(changes.update(to: try await self.connections(filter, through: connector)))
        }
      }
      defer { group.cancelAll() }
      try await group.next()
    }
  }

  private func show(_ changes: [ConnectionChanges.Change]) throws {
    for change in changes {
      try self.show(
        try .connection(change.connection, hasEnded: change.hasEnded),
        self.console.style.connection(
          change.connection, hasEnded: change.hasEnded, now: self.console.now()))
    }
  }
}

/// The differences between lists of connections.
struct ConnectionChanges {
  struct Change: Equatable {
    var connection: ListedConnection
    var hasEnded = false
  }

  private var known: [ListedConnection.ID: ListedConnection] = [:]

  /// Returns new connections, ended connections, and connections with another state than in the
  /// last list.
  mutating func update(to connections: [ListedConnection]) -> [Change] {
    let before = self.known
    self.known = Dictionary(connections.map { ($0.id, $0) }) { first, _ in first }
    let changed = connections.filter { connection in
      guard let old = before[connection.id] else { return true }
      return old.verdict != connection.verdict
        || old.connection.reason != connection.connection.reason
    }
    let ended = before.values.filter { self.known[$0.id] == nil }.sorted { $0.local < $1.local }
    return changed.worstFirst.map { Change(connection: $0) }
      + ended.map { Change(connection: $0, hasEnded: true) }
  }
}

/// The connections to list.
struct ConnectionFilter {
  fileprivate struct End {
    /// Empty for any host.
    var addresses: [String]
    /// 0 for any port.
    var port: UInt32
  }

  fileprivate let ends: [End]
  private let onlyDead: Bool

  /// - Throws: ``ResolutionError`` if a name cannot be resolved.
  init(_ ends: [Endpoint], onlyDead: Bool) throws {
    self.onlyDead = onlyDead
    self.ends = try ends.map { end in
      End(
        addresses: end.host.isEmpty
          ? [] : try Resolver.hosts(of: end.host).map(\.address.description),
        port: UInt32(end.port))
    }
  }

  func matches(_ connection: Connectivity_V1_Connection) -> Bool {
    if self.onlyDead, ConnectionVerdict(connection) != .dead { return false }
    return self.ends.isEmpty
      || self.ends.contains { end in
        end.matches(connection.remote, connection.remotePort)
          || end.matches(connection.local, connection.localPort)
      }
  }
}

extension ConnectionFilter.End {
  fileprivate func matches(_ address: String, _ port: UInt32) -> Bool {
    (self.addresses.isEmpty || self.addresses.contains(address))
      && (self.port == 0 || self.port == port)
  }
}
