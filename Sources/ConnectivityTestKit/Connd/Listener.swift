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

/// Serves on a Unix socket until it is ended, on a thread of its own that ends with it.
final class Listener: Sendable {
  private let serving: Task<Void, Never>
  private let end: Task<Void, Never>

  /// Returns when clients can connect.
  ///
  /// - Throws: Where nothing can listen on the socket.
  init(on socket: String, _ service: ConndService) async throws {
    // One thread, so that connections are set up in the order in which they come: NIO traps where that is done after
    // the listener has ended.
    let threads = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    do {
      let serving = try await Self.serve(service, on: socket, threads)
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

  /// The task that serves. With it the transport goes, which needs the thread to its last moment.
  private static func serve(
    _ service: ConndService, on socket: String, _ threads: MultiThreadedEventLoopGroup
  ) async throws -> Task<Void, Never> {
    let transport = HTTP2ServerTransport.Posix(
      address: .unixDomainSocket(path: socket), transportSecurity: .plaintext,
      config: .defaults { $0.connection.flushCoalescing = nil }, eventLoopGroup: threads)
    let server = GRPCServer(transport: transport, services: [service])
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

  /// Hangs up on everybody, and returns when the thread has ended.
  func close() async {
    self.serving.cancel()
    await self.end.value
  }
}

/// A directory for a socket, removed with the last reference, and a path in it that is short enough for one.
final class SocketDirectory: Sendable {
  private let path: String
  var socket: String { "\(self.path)/connd.sock" }

  /// - Throws: ``SimulationError`` where no directory can be made.
  init() throws(SimulationError) {
    let parent = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
    // The name of a socket has 108 bytes, with the terminating zero: a path below a long TMPDIR has no room in it, and /tmp
    // stands in.
    let isShort = !parent.isEmpty && parent.utf8.count < 70
    var template = Array("\(isShort ? parent : "/tmp")/connd-simulated-XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else {
      throw SimulationError("no directory for the socket: \(String(cString: strerror(errno)))")
    }
    self.path = String(
      decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
  }

  /// Nobody finds the socket any more.
  func removeSocket() { unlink(self.socket) }

  func remove() {
    self.removeSocket()
    rmdir(self.path)
  }

  deinit { self.remove() }
}
