package import GRPCCore
private import GRPCNIOTransportHTTP2Posix
private import NIOCore
private import NIOPosix
private import Synchronization

#if canImport(Glibc)
  private import Glibc
#elseif canImport(Musl)
  private import Musl
#else
  private import Darwin
#endif

/// Serves on a Unix socket until it is closed. Has its own thread, which ends after serving.
package final class Listener: Sendable {
  private let end: Task<Void, Never>
  private let closing: AsyncStream<Void>.Continuation

  /// Returns when clients can connect.
  ///
  /// - Parameter onCall: Called with the identity of a call's connection.
  /// - Throws: An error if it cannot listen on the socket.
  package init(
    on socket: String, _ services: [any RegistrableRPCService],
    onCall: @escaping @Sendable (_ connection: ObjectIdentifier) -> Void = { _ in }
  ) async throws {
    let threads = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    let (closed, closing) = AsyncStream.makeStream(of: Void.self)
    self.closing = closing
    do {
      let serving = try await Self.serve(services, on: socket, threads, onCall, until: closed)
      self.end = Task {
        await serving.value
        try? await threads.shutdownGracefully()
      }
    } catch {
      try? await threads.shutdownGracefully()
      throw error
    }
  }

  /// Starts the task that serves until the stream ends. The task owns the server, which must be
  /// released before the thread ends.
  private static func serve(
    _ services: [any RegistrableRPCService], on socket: String,
    _ threads: MultiThreadedEventLoopGroup,
    _ onCall: @escaping @Sendable (ObjectIdentifier) -> Void, until closed: AsyncStream<Void>
  ) async throws -> Task<Void, Never> {
    let connections = Connections(thread: threads.next())
    let transport = HTTP2ServerTransport.Posix(
      address: .unixDomainSocket(path: socket), transportSecurity: .plaintext,
      config: .defaults {
        $0.connection.flushCoalescing = nil
        $0.channelDebuggingCallbacks.onAcceptTCPConnection = { connections.add($0) }
        $0.channelDebuggingCallbacks.onAcceptHTTP2Stream = { stream in
          // A stream's parent is its connection.
          if let connection = stream.parent { onCall(ObjectIdentifier(connection)) }
          return stream.eventLoop.makeSucceededVoidFuture()
        }
      },
      eventLoopGroup: threads)
    let server = GRPCServer(transport: transport, services: services)
    let serving = Task { try? await server.serve() }
    do {
      _ = try await transport.listeningAddress
    } catch {
      await serving.value
      throw error
    }
    return Task {
      for await _ in closed {}
      await connections.close { server.beginGracefulShutdown() }
      // Cancelled last: NIO traps if a cancelled task drops an open connection or stream.
      serving.cancel()
      await serving.value
    }
  }

  deinit { self.closing.finish() }

  /// Disconnects all clients, and returns when the thread has ended.
  package func close() async {
    self.closing.finish()
    await self.end.value
  }

  /// Serves while `body` runs. Then removes the socket, because disconnected clients reconnect
  /// immediately, and disconnects them.
  package static func serving<Result>(
    _ services: [any RegistrableRPCService], on socket: String,
    onCall: @escaping @Sendable (_ connection: ObjectIdentifier) -> Void = { _ in },
    _ body: () async throws -> Result
  ) async throws -> Result {
    let listener = try await Listener(on: socket, services, onCall: onCall)
    let result: Swift.Result<Result, any Error>
    do { result = .success(try await body()) } catch { result = .failure(error) }
    unlink(socket)
    await listener.close()
    return try result.get()
  }

  /// The open connections. They belong to one thread.
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

/// A directory for a socket, with a path short enough for one. Removed with the last reference.
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
