internal import ConnectivityClient
package import GRPCCore
package import GRPCNIOTransportHTTP2Posix
package import NIOCore
private import NIOPosix
private import Synchronization

#if canImport(Glibc)
  private import Glibc
#elseif canImport(Musl)
  private import Musl
#else
  private import Darwin
#endif

/// A gRPC server that serves until it is closed. Its own thread also runs the handlers, so that the
/// server answers in time even if Swift's thread pool is busy. The thread ends after serving.
package final class Listener: Sendable {
  package typealias Address = GRPCNIOTransportHTTP2Posix.SocketAddress

  /// Returns the address of a Unix socket.
  package static func socket(_ path: String) -> Address { .unixDomainSocket(path: path) }

  /// The listening address, with the port that the kernel has chosen.
  package let address: Address
  private let end: Task<Void, Never>
  private let closing: AsyncStream<Void>.Continuation

  /// Starts serving, and returns when clients can connect.
  ///
  /// - Parameters:
  ///   - configure: Changes the server's settings. The listener replaces the debugging callbacks.
  ///   - onConnection: Called with each new connection, on its thread.
  ///   - onCall: Called with the identity of a call's connection.
  /// - Throws: An error if the server cannot listen at the address.
  package init(
    at address: Address, security: HTTP2ServerTransport.Posix.TransportSecurity = .plaintext,
    _ services: [any RegistrableRPCService],
    configure: (inout HTTP2ServerTransport.Posix.Config) -> Void = { _ in },
    onConnection: @escaping @Sendable (any Channel) -> Void = { _ in },
    onCall: @escaping @Sendable (_ connection: ObjectIdentifier) -> Void = { _ in }
  ) async throws {
    let threads = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    let connections = Connections(thread: threads.next())
    let config = HTTP2ServerTransport.Posix.Config.defaults {
      configure(&$0)
      $0.connection.flushCoalescing = nil
      $0.channelDebuggingCallbacks.onAcceptTCPConnection = { connection in
        onConnection(connection)
        return connections.add(connection)
      }
      $0.channelDebuggingCallbacks.onAcceptHTTP2Stream = { stream in
        // A stream's parent is its connection.
        if let connection = stream.parent { onCall(ObjectIdentifier(connection)) }
        return stream.eventLoop.makeSucceededVoidFuture()
      }
    }
    let (closed, closing) = AsyncStream.makeStream(of: Void.self)
    self.closing = closing
    do {
      // The task owns the server, which must be released before the thread ends.
      let serving: Task<Void, Never>
      (self.address, serving) = try await Self.serve(
        services,
        over: HTTP2ServerTransport.Posix(
          address: address, transportSecurity: security, config: config, eventLoopGroup: threads),
        connections, on: EventLoopTaskExecutor(threads.next()), until: closed)
      self.end = Task {
        await serving.value
        try? await threads.shutdownGracefully()
      }
    } catch {
      try? await threads.shutdownGracefully()
      throw error
    }
  }

  /// Starts the task that serves until the stream ends.
  private static func serve(
    _ services: [any RegistrableRPCService], over transport: HTTP2ServerTransport.Posix,
    _ connections: Connections, on thread: EventLoopTaskExecutor,
    until closed: AsyncStream<Void>
  ) async throws -> (Address, Task<Void, Never>) {
    let server = GRPCServer(transport: transport, services: services)
    let serving = Task(executorPreference: thread) { try await server.serve() }
    let address: Address
    do {
      address = try await transport.listeningAddress
    } catch {
      // Only this error contains the reason why listening failed.
      try await serving.value
      throw error
    }
    let end = Task {
      for await _ in closed {}
      await connections.close { server.beginGracefulShutdown() }
      // Cancel last: NIO traps if a cancelled task drops an open connection or stream. Cancelling
      // is needed because gRPC does not notify a handler if its call ended before the handler
      // began.
      serving.cancel()
      _ = await serving.result
    }
    return (address, end)
  }

  deinit { self.closing.finish() }

  /// Disconnects all clients, and returns when the thread has ended.
  package func close() async {
    self.closing.finish()
    await self.end.value
  }

  /// Serves while `body` runs, and then disconnects all clients.
  package static func serving<Result>(
    _ services: [any RegistrableRPCService], at address: Address,
    security: HTTP2ServerTransport.Posix.TransportSecurity = .plaintext,
    configure: (inout HTTP2ServerTransport.Posix.Config) -> Void = { _ in },
    onConnection: @escaping @Sendable (any Channel) -> Void = { _ in },
    onCall: @escaping @Sendable (_ connection: ObjectIdentifier) -> Void = { _ in },
    _ body: (_ address: Address) async throws -> Result
  ) async throws -> Result {
    let listener = try await Listener(
      at: address, security: security, services, configure: configure,
      onConnection: onConnection, onCall: onCall)
    let result: Swift.Result<Result, any Error>
    do { result = .success(try await body(listener.address)) } catch { result = .failure(error) }
    // Disconnected clients reconnect immediately, so the socket is removed first.
    if let socket = address.unixDomainSocket { unlink(socket.path) }
    await listener.close()
    return try result.get()
  }

  /// The open connections, which all belong to one thread.
  private final class Connections: Sendable {
    private struct State {
      var open: [ObjectIdentifier: any Channel] = [:]
      var isClosing = false
    }

    private let thread: any EventLoop
    private let state = Mutex(State())

    init(thread: any EventLoop) { self.thread = thread }

    func add(_ connection: any Channel) -> EventLoopFuture<Void> {
      let id = ObjectIdentifier(connection)
      let isClosing = self.state.withLock { state in
        state.open[id] = connection
        return state.isClosing
      }
      connection.closeFuture.whenComplete { _ in
        self.state.withLock { _ = $0.open.removeValue(forKey: id) }
      }
      if isClosing { connection.close(promise: nil) }
      return connection.eventLoop.makeSucceededVoidFuture()
    }

    /// Stops listening, and closes all connections. Returns when they are closed.
    func close(_ stopListening: @escaping @Sendable () -> Void) async {
      let closed = self.thread.flatSubmit {
        stopListening()
        let open = self.state.withLock { state in
          state.isClosing = true
          return Array(state.open.values)
        }
        for connection in open { connection.close(promise: nil) }
        return EventLoopFuture.andAllComplete(open.map(\.closeFuture), on: self.thread)
      }
      try? await closed.get()
    }
  }
}

/// A directory with a path that is short enough for a socket. Removed with the last reference.
final class SocketDirectory: Sendable {
  private let path: String
  var socket: String { "\(self.path)/connd.sock" }

  /// - Throws: ``SimulationError`` if no directory can be created.
  init() throws(SimulationError) {
    let parent = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
    // A socket path has at most 108 bytes, including the terminating zero. A path below a long
    // TMPDIR does not fit, so /tmp is used instead.
    let isShort = !parent.isEmpty && parent.utf8.count < 70
    var template = Array("\(isShort ? parent : "/tmp")/connd-simulated-XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else {
      throw SimulationError("no directory for the socket: \(String(cString: strerror(errno)))")
    }
    self.path = String(
      decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
  }

  /// Removes the socket, so that clients no longer find it.
  func removeSocket() { unlink(self.socket) }

  func remove() {
    self.removeSocket()
    rmdir(self.path)
  }

  deinit { self.remove() }
}
