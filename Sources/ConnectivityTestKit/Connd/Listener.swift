internal import ConnectivityProtocol
internal import GRPCCore
private import GRPCNIOTransportHTTP2Posix
private import NIOCore
private import NIOPosix

#if canImport(Glibc)
  private import Glibc
#elseif canImport(Musl)
  private import Musl
#else
  private import Darwin
#endif

/// Serves on a Unix socket until it is closed. Has its own thread, which ends after serving.
final class Listener: Sendable {
  private let serving: Task<Void, Never>
  private let end: Task<Void, Never>

  /// Returns when clients can connect.
  ///
  /// - Throws: An error if it cannot listen on the socket.
  init(on socket: String, _ services: [any RegistrableRPCService]) async throws {
    // One thread, so that connections are set up in the order in which they arrive. NIO traps if a
    // connection is set up after the listener has ended.
    let threads = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    do {
      let serving = try await Self.serve(services, on: socket, threads)
      self.serving = serving
      self.end = Task {
        await serving.value
        try? await threads.shutdownGracefully()
      }
    } catch {
      try? await threads.shutdownGracefully()
      throw error
    }
  }

  /// Starts the serving task. The transport ends with it, and needs the thread to its last moment.
  private static func serve(
    _ services: [any RegistrableRPCService], on socket: String,
    _ threads: MultiThreadedEventLoopGroup
  ) async throws -> Task<Void, Never> {
    let transport = HTTP2ServerTransport.Posix(
      address: .unixDomainSocket(path: socket), transportSecurity: .plaintext,
      config: .defaults { $0.connection.flushCoalescing = nil }, eventLoopGroup: threads)
    let server = GRPCServer(transport: transport, services: services)
    let serving = Task<Void, Never> { try? await server.serve() }
    do {
      _ = try await transport.listeningAddress
    } catch {
      serving.cancel()
      await serving.value
      throw error
    }
    return serving
  }

  deinit { self.serving.cancel() }

  /// Disconnects all clients, and returns when the thread has ended.
  func close() async {
    self.serving.cancel()
    await self.end.value
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
