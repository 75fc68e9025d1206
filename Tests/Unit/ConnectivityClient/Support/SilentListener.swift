import Dispatch
import GRPCNIOTransportHTTP2Posix
import Glibc
import NIOCore
import Testing

/// Accepts connections on 127.0.0.1, and never sends anything.
final class SilentListener: Sendable {
  let port: Int
  var address: GRPCNIOTransportHTTP2Posix.SocketAddress {
    .ipv4(host: "127.0.0.1", port: self.port)
  }
  private let socket: CInt

  /// - Parameters:
  ///   - backlog: The number of connections that wait to be accepted before the kernel drops new
  ///     ones.
  ///   - isListening: Whether connections are accepted at all. Otherwise the kernel refuses them,
  ///     until a server listens at the same address.
  init(backlog: CInt = 8, isListening: Bool = true) throws {
    let socket = Glibc.socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
    var one: CInt = 1
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &one, socklen_t(MemoryLayout<CInt>.size))
    var name = LoopbackName()
    let bound =
      name.withPointer { bind(socket, $0, $1) } == 0
      && (!isListening || listen(socket, backlog) == 0) && name.read(of: socket) == 0
    guard bound else { throw IOError(errnoCode: errno, reason: "no listener") }
    self.socket = socket
    self.port = name.port
  }

  deinit { close(self.socket) }

  /// A connection to a port of 127.0.0.1, open as long as the returned value exists.
  static func connection(to port: Int) throws -> some Sendable {
    let socket = Glibc.socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
    let connection = Connection(socket: socket)
    let result = LoopbackName(port: port).withPointer { connect(socket, $0, $1) }
    guard result == 0 else { throw IOError(errnoCode: errno, reason: "no connection") }
    return connection
  }

  private final class Connection: Sendable {
    let socket: CInt
    init(socket: CInt) { self.socket = socket }
    deinit { close(self.socket) }
  }

  /// Whether a client has connected.
  var isConnected: Bool {
    var poll = pollfd(fd: self.socket, events: Int16(POLLIN), revents: 0)
    return Glibc.poll(&poll, 1, 0) == 1
  }

  /// Returns when a client has connected and hung up.
  func closed(sourceLocation: SourceLocation = #_sourceLocation) async throws {
    try await self.accepted(sourceLocation: sourceLocation)
    let connection = Glibc.accept(self.socket, nil, nil)
    guard connection >= 0 else { throw IOError(errnoCode: errno, reason: "no client") }
    defer { close(connection) }
    var bytes = [UInt8](repeating: 0, count: 4096)
    try await waiting(for: "a client to hang up", sourceLocation) {
      while true {
        try await readable(connection)
        let count = recv(connection, &bytes, bytes.count, 0)
        if count == 0 || count < 0 && errno == ECONNRESET { return }
        guard count > 0 else { throw IOError(errnoCode: errno, reason: "no end") }
      }
    }
  }

  /// Returns when a client has connected.
  func accepted(sourceLocation: SourceLocation = #_sourceLocation) async throws {
    try await waiting(for: "a client to connect", sourceLocation) {
      try await readable(self.socket)
    }
  }
}

/// Returns when there is something to read or accept. No thread of NIO's pool waits for that, which
/// channels need to connect.
private func readable(_ socket: CInt) async throws {
  let (events, event) = AsyncStream.makeStream(
    of: Void.self, bufferingPolicy: .bufferingNewest(1))
  // Dispatch may use the descriptor until it has handled the cancellation.
  let copy = dup(socket)
  let source = DispatchSource.makeReadSource(fileDescriptor: copy)
  source.setEventHandler { event.yield() }
  source.setCancelHandler { close(copy) }
  source.activate()
  defer { source.cancel() }
  for await _ in events { return }
  throw CancellationError()
}
