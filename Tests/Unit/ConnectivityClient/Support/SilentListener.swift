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
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let bound = withUnsafeMutablePointer(to: &address) { address in
      address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
        bind(socket, address, length) == 0
          && (!isListening || listen(socket, backlog) == 0)
          && getsockname(socket, address, &length) == 0
      }
    }
    guard bound else { throw IOError(errnoCode: errno, reason: "no listener") }
    self.socket = socket
    self.port = Int(UInt16(bigEndian: address.sin_port))
  }

  deinit { close(self.socket) }

  /// A connection to a port of 127.0.0.1, open as long as the returned value exists.
  static func connection(to port: Int) throws -> some Sendable {
    let socket = Glibc.socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
    let connection = Connection(socket: socket)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    address.sin_port = in_port_t(port).bigEndian
    let result = withUnsafePointer(to: &address) { address in
      address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
        connect(socket, address, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
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
