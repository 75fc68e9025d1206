package import GRPCCore
private import Synchronization

#if os(Linux)
  package import UnixTransport
#endif

/// The connections of a process to connd. The users of a socket share a connection, which exists as
/// long as one of them uses it. Each call has its own flow control, so that a slow reader does not
/// delay the others.
///
/// Implements rule C7.
package final class Connector: Sendable {
  /// The connector of an application.
  package static let shared = Connector(ClientThread())

  package let thread: ClientThread
  #if os(Linux)
    private let directory = Mutex(SharedConnections())
  #endif

  package init(_ thread: ClientThread) { self.thread = thread }

  #if os(Linux)
    /// Creates a connector on a running reactor.
    package convenience init(on reactor: Reactor) { self.init(ClientThread(reactor)) }
  #endif

  /// The executor for tasks that read input.
  package var executor: (any TaskExecutor)? { self.thread.executor }

  /// Makes a call on the shared connection. The call ends when the body returns.
  ///
  /// - Throws: ``ConndError`` if connd is not running or refuses this user; the error of the body,
  ///   such as gRPC's.
  package func withCall<Result: Sendable>(
    _ method: MethodDescriptor, at socket: String,
    _ body: (any StreamCall) async throws -> Result
  ) async throws -> Result {
    #if os(Linux)
      try await self.withConnection(to: socket) { try await $0.withCall(method, body) }
    #else
      throw ConndError.notAvailable("connd runs only on Linux")
    #endif
  }

  /// Makes a call with one request and a stream of responses, until it ends.
  ///
  /// - Parameters:
  ///   - question: A call without parameters to make before, on the same connection.
  ///   - answered: Called with the response to `question`.
  ///   - accepted: Called when connd has accepted the call. The first message may arrive much
  ///     later.
  ///   - take: Called with each message. The next message is not read before `take` returns.
  /// - Throws: The errors of `withCall`; the errors of the closures.
  package func stream(
    _ method: MethodDescriptor, _ request: [UInt8], at socket: String,
    asking question: MethodDescriptor? = nil, answered: ([UInt8]) throws -> Void = { _ in },
    accepted: () async throws -> Void, _ take: ([UInt8]) async throws -> Void
  ) async throws {
    #if os(Linux)
      try await self.withConnection(to: socket) { connection in
        if let question {
          try await connection.withCall(question) { try await $0.stream([], {}, answered) }
        }
        try await connection.withCall(method) { try await $0.stream(request, accepted, take) }
      }
    #else
      throw ConndError.notAvailable("connd runs only on Linux")
    #endif
  }
}

/// A call to connd that bypasses gRPC's client, because the layers of that client would double the
/// time for each message.
package protocol StreamCall: Sendable {
  func send(_ message: [UInt8]) async throws
  /// Half-closes the call: no more messages are sent.
  func finish()
  /// Reads the responses until the call ends.
  ///
  /// - Parameters:
  ///   - accepted: Called when connd has accepted the call.
  ///   - take: Called with each message. The next message is not read before `take` returns.
  /// - Throws: `RPCError`; the errors of the closures.
  func receive(
    _ accepted: () async throws -> Void, _ take: ([UInt8]) async throws -> Void
  ) async throws
}

extension StreamCall {
  /// Sends the only request, and reads the responses until the call ends.
  fileprivate func stream(
    _ request: [UInt8], _ accepted: () async throws -> Void,
    _ take: ([UInt8]) async throws -> Void
  ) async throws {
    try await self.send(request)
    self.finish()
    try await self.receive(accepted, take)
  }
}

extension Connector {
  /// The error of a closure that handles connd's messages. It ends ``repeating(at:_:lost:)``.
  package struct ReceiverError: Error {
    var error: any Error

    /// Runs the body, and wraps its errors in this type.
    static func marking(_ body: () async throws -> Void) async throws(ReceiverError) {
      do { try await body() } catch { throw ReceiverError(error: error) }
    }
  }

  /// Makes a call to connd, and repeats the call each time it ends.
  ///
  /// - Parameters:
  ///   - socket: The path of connd's socket.
  ///   - call: The call.
  ///   - lost: Called when the call has ended, with the reason. Returns the pause before the next
  ///     attempt.
  /// - Throws: `CancellationError`, or the error in a ``ReceiverError``.
  package func repeating(
    at socket: String, _ call: () async throws -> Void, lost: (any Error) async throws -> Duration
  ) async throws {
    // The maximum pause for a while after the socket has appeared, because connd may not be ready
    // yet.
    var limit: Duration?
    while true {
      let reason: any Error
      do {
        try await call()
        reason = ConndError.notAvailable("connd ended the stream")
      } catch let stop as ReceiverError {
        throw stop.error
      } catch {
        reason = ConndError.reading(error)
      }
      try Task.checkCancellation()
      var pause = try await lost(reason)
      if let known = limit {
        pause = min(pause, known)
        limit = known < Outage.maxUnwatchedPause ? known * 2 : nil
      }
      if try await self.rest(for: pause, socket, after: reason) { limit = Outage.minPause }
    }
  }

  /// Returns after a pause, or as soon as connd's socket may have appeared.
  ///
  /// A pause may last a minute, but only while no process listens on the socket. Otherwise it is
  /// shorter, because watching the socket cannot show, for example, that connd now accepts this
  /// user.
  ///
  /// - Returns: Whether the socket may have appeared.
  private func rest(
    for pause: Duration, _ socket: String, after reason: any Error
  ) async throws(CancellationError) -> Bool {
    #if os(Linux)
      let limit = Outage.maxUnwatchedPause
      if (reason as? ConndError)?.code == .notAvailable, let reactor = try? self.thread.reactor {
        return try await reactor.sleep(
          for: pause, orUntilSocketAppears: socket, limit: limit
        ) { SocketProbe.isSilent(socket) }
      }
      try await self.thread.sleep(for: min(pause, limit))
    #else
      try await self.thread.sleep(for: pause)
    #endif
    return false
  }
}

#if os(Linux)
  extension Connector {
    /// The codes of calls that end with their connection.
    private static let lossCodes: [RPCError.Code] = [.unavailable, .resourceExhausted]
    /// How long to wait for room in the listen backlog.
    private static let maxWait = Duration.seconds(5)
    /// How long to wait before each further attempt to connect.
    private static let pause = Duration.milliseconds(10)

    private func withConnection<Result: Sendable>(
      to socket: String, _ body: (UnixClientTransport) async throws -> Result
    ) async throws -> Result {
      let (connection, number) = try await self.join(socket)
      defer {
        // Close outside the lock, because closing a connection takes the lock, too.
        self.directory.withLock { $0.leave(number, socket) }?.close()
      }
      do {
        return try await body(connection)
      } catch let error as RPCError where Self.lossCodes.contains(error.code) {
        // The connection has ended, or is about to. The next user makes a new one.
        self.directory.withLock { $0.close(number, socket) }
        throw error
      }
    }

    /// Joins a connection, or makes one.
    private func join(
      _ socket: String
    ) async throws -> (UnixClientTransport, SharedConnections.Number) {
      if let joined = self.directory.withLock({ $0.join(socket) }) { return joined }
      let reactor = try self.thread.reactor
      let descriptor = try await self.connect(to: socket)
      return self.directory.withLock { directory in
        // Another user may have connected in the meantime.
        if let joined = directory.join(socket) {
          SocketProbe.disconnect(descriptor)
          return joined
        }
        return directory.add(UnixClientTransport(connected: descriptor, on: reactor), to: socket)
      }
    }

    /// Returns a new connection, which the caller closes.
    ///
    /// - Throws: ``ConndError``; `CancellationError`.
    package func connect(to socket: String) async throws -> CInt {
      let end = ContinuousClock.now + Self.maxWait
      while true {
        if let descriptor = try SocketProbe.connection(to: socket) { return descriptor }
        if ContinuousClock.now > end {
          throw ConndError.failed("\(socket): connd accepts no connections and its backlog is full")
        }
        try await self.thread.sleep(for: Self.pause)
      }
    }
  }
#endif
