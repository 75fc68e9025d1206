internal import ConnectivityProtocol
internal import ConnectivitySession
internal import GRPCCore
internal import GRPCNIOTransportHTTP2Posix
private import Synchronization

/// The connection to connd that all monitors and guards of a process share. They read input
/// immediately. The connection exists as long as one of them uses it.
///
/// Slow consumers have their own connection, so that they do not block others.
///
/// Implements rule C7.
final class SharedConnection: Sendable {
  fileprivate struct Directory {
    /// The connections that new users join, by socket.
    var open: [String: SharedConnection] = [:]
    var users: [ObjectIdentifier: Int] = [:]
  }

  private static let directory = Mutex(Directory())

  private let client: GRPCClient<HTTP2ClientTransport.Posix>
  private let running: Task<Void, Never>

  private init(to socket: String) throws {
    let client = GRPCClient(transport: try conndTransport(to: socket))
    self.client = client
    self.running = Task(executorPreference: EventLoopTaskExecutor(ClientThread.eventLoop)) {
      try? await client.runConnections()
    }
  }

  /// Runs the body with a client on the connection, and connects if necessary.
  ///
  /// - Throws: ``ConndError`` if connd is not running or refuses this user; the error of the body.
  ///   After UNAVAILABLE the next user makes a new connection, because this one has ended.
  static func with<Result: Sendable>(
    _ socket: String, _ body: (ConndClient) async throws -> Result
  ) async throws -> Result {
    let connection = try Self.enter(socket)
    defer { connection.leave(socket) }
    do {
      return try await body(ConndClient(wrapping: connection.client))
    } catch let error as RPCError where error.code == .unavailable {
      Self.directory.withLock { $0.close(connection, socket) }
      throw error
    }
  }

  private static func enter(_ socket: String) throws -> SharedConnection {
    if let connection = Self.directory.withLock({ $0.join(socket) }) { return connection }
    try SocketProbe.connect(to: socket)
    return try Self.directory.withLock { directory in
      // Another thread may have been faster.
      if let connection = directory.join(socket) { return connection }
      let new = try SharedConnection(to: socket)
      directory.open[socket] = new
      directory.users[ObjectIdentifier(new)] = 1
      return new
    }
  }

  private func leave(_ socket: String) {
    let isLast = Self.directory.withLock { directory in
      let users = directory.users[ObjectIdentifier(self), default: 1] - 1
      directory.users[ObjectIdentifier(self)] = users > 0 ? users : nil
      if users <= 0 { directory.close(self, socket) }
      return users <= 0
    }
    guard isLast else { return }
    self.client.beginGracefulShutdown()
    self.running.cancel()
  }
}

extension SharedConnection.Directory {
  fileprivate mutating func join(_ socket: String) -> SharedConnection? {
    guard let connection = self.open[socket] else { return nil }
    self.users[ObjectIdentifier(connection), default: 0] += 1
    return connection
  }

  /// Stops new users from joining the connection.
  fileprivate mutating func close(_ connection: SharedConnection, _ socket: String) {
    if self.open[socket] === connection { self.open[socket] = nil }
  }
}
