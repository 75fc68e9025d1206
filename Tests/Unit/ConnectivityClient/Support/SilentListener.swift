import Glibc
import NIOCore
import NIOPosix

/// Accepts connections on 127.0.0.1, and never sends anything.
final class SilentListener: Sendable {
  let port: Int
  private let socket: CInt

  /// - Parameters:
  ///   - backlog: The number of connections that wait to be accepted before the kernel drops new
  ///     ones.
  ///   - isListening: Whether connections are accepted at all; otherwise the kernel refuses them.
  init(backlog: CInt = 8, isListening: Bool = true) throws {
    let socket = Glibc.socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
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
  func closed() async throws {
    let socket = self.socket
    try await NIOThreadPool.singleton.runIfActive {
      let connection = Glibc.accept(socket, nil, nil)
      guard connection >= 0 else { throw IOError(errnoCode: errno, reason: "nobody came") }
      defer { close(connection) }
      var patience = timeval(tv_sec: 60, tv_usec: 0)
      setsockopt(
        connection, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
      var bytes = [UInt8](repeating: 0, count: 4096)
      while true {
        let count = recv(connection, &bytes, bytes.count, 0)
        if count == 0 || count < 0 && errno == ECONNRESET { return }
        guard count > 0 else { throw IOError(errnoCode: errno, reason: "it does not hang up") }
      }
    }
  }

  /// Returns when a client has connected.
  func accepted() async throws {
    let socket = self.socket
    try await NIOThreadPool.singleton.runIfActive {
      var poll = pollfd(fd: socket, events: Int16(POLLIN), revents: 0)
      guard Glibc.poll(&poll, 1, 60_000) == 1 else {
        throw IOError(errnoCode: ETIMEDOUT, reason: "nobody came")
      }
    }
  }
}
