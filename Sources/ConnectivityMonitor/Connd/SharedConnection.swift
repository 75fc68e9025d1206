#if os(Linux)
  internal import GRPCCore
  internal import UnixTransport

  /// A connection to connd that several users share.
  final class SharedConnection: Sendable {
    let transport: UnixClientTransport
    let client: GRPCClient<UnixClientTransport>
    private let running: Task<Void, Never>

    /// - Parameters:
    ///   - descriptor: A connected socket, which the connection closes.
    ///   - ended: Called when the connection has ended.
    init(_ descriptor: CInt, on reactor: Reactor, ended: @escaping @Sendable () -> Void) {
      let transport = UnixClientTransport(connected: descriptor, on: reactor)
      let client = GRPCClient(transport: transport)
      self.transport = transport
      self.client = client
      self.running = Task(executorPreference: reactor) {
        try? await client.runConnections()
        ended()
      }
    }

    func end() {
      // In this order: cancelling the transport alone would leave calls hanging that wait for a
      // connection.
      self.client.beginGracefulShutdown()
      self.running.cancel()
    }

    /// The open connections and their users, by the connections' numbers.
    struct Directory {
      typealias Number = UInt64

      /// A connection allows only so many streams (RFC 9113, 5.1.2). Further users get another one.
      static let maxUsers = 64

      /// The connection that new users of a socket join.
      private var current: [String: Number] = [:]
      private var connections: [Number: (connection: SharedConnection, users: Int)] = [:]
      private var lastNumber: Number = 0

      /// Adds a user to the socket's connection. Returns `nil` if no connection has room.
      mutating func join(_ socket: String) -> (SharedConnection, Number)? {
        guard let number = self.current[socket], let entry = self.connections[number],
          entry.users < Self.maxUsers
        else { return nil }
        self.connections[number]?.users += 1
        return (entry.connection, number)
      }

      /// Adds a connection with one user, which later users join.
      mutating func add(
        to socket: String, _ make: (Number) -> SharedConnection
      ) -> (SharedConnection, Number) {
        self.lastNumber += 1
        let connection = make(self.lastNumber)
        self.connections[self.lastNumber] = (connection, 1)
        self.current[socket] = self.lastNumber
        return (connection, self.lastNumber)
      }

      /// Removes a user. Returns the connection if it was the last one.
      mutating func leave(_ number: Number, _ socket: String) -> SharedConnection? {
        guard let entry = self.connections[number] else { return nil }
        self.connections[number]?.users -= 1
        guard entry.users <= 1 else { return nil }
        self.connections[number] = nil
        self.close(number, socket)
        return entry.connection
      }

      /// Stops new users from joining the connection.
      mutating func close(_ number: Number, _ socket: String) {
        if self.current[socket] == number { self.current[socket] = nil }
      }
    }
  }
#endif
