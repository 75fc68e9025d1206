#if os(Linux)
  internal import UnixTransport

  /// The shared connections of a process to connd, and the number of their users.
  struct SharedConnections {
    typealias Number = UInt64

    /// The maximum number of users of a connection (RFC 9113, 5.1.2, limits its streams).
    static let maxUsers = 64

    /// The connection that new users of a socket join.
    private var current: [String: Number] = [:]
    private var connections: [Number: (connection: UnixClientTransport, users: Int)] = [:]
    private var lastNumber: Number = 0

    /// Adds a user to the socket's connection. Returns `nil` if no connection has room.
    mutating func join(_ socket: String) -> (UnixClientTransport, Number)? {
      guard let number = self.current[socket], let entry = self.connections[number],
        entry.users < Self.maxUsers
      else { return nil }
      self.connections[number]?.users += 1
      return (entry.connection, number)
    }

    /// Adds a connection with one user, which later users join.
    mutating func add(
      _ connection: UnixClientTransport, to socket: String
    ) -> (UnixClientTransport, Number) {
      self.lastNumber += 1
      self.connections[self.lastNumber] = (connection, 1)
      self.current[socket] = self.lastNumber
      return (connection, self.lastNumber)
    }

    /// Removes a user. Returns the connection if that was its last user.
    mutating func leave(_ number: Number, _ socket: String) -> UnixClientTransport? {
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

  extension ClientCall: StreamCall {}
#endif
