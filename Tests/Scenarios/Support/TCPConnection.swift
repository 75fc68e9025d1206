import Glibc
import TestKit

/// A TCP connection between two namespaces, against which connd's verdict is checked.
final class TCPConnection {
  private let client: CInt
  private let server: CInt
  /// The client's address as text with its port, in the format of `connctl guard`.
  let local: String
  let localEndpoint: String
  let remoteEndpoint: String
  private var sent: UInt8 = 0

  /// Options of the client's socket, set before it connects.
  struct Options: Sendable {
    /// The address it is bound to; otherwise the kernel chooses.
    var source: String?
    /// The port it is bound to.
    var sourcePort: UInt16 = 0
    /// The port that the server listens on; otherwise any.
    var remotePort: UInt16 = 0
    /// SO_BINDTODEVICE.
    var link: String?
    /// SO_MARK.
    var mark: UInt32?
    /// An IPv6 socket, even for a server with an IPv4 address, which it sees as `::ffff:a.b.c.d`.
    var isDualStack = false
    /// The server's own address, if packets to the remote address are forwarded to another.
    var listen: String?
    /// Whether the server accepts connections to any address (IP_TRANSPARENT).
    var isTransparent = false
  }

  /// Connects to an address of the other namespace.
  init(
    from namespace: NetworkNamespace, to other: NetworkNamespace, at address: String,
    _ options: Options = Options()
  ) throws {
    let endpoint = try Endpoint(options.listen ?? address, port: options.remotePort)
    let listener = try other.perform {
      let listener = socket(endpoint.family, Self.type, 0)
      Self.set(SO_REUSEADDR, 1, on: listener)
      if options.isTransparent {
        var on: CInt = 1
        setsockopt(listener, CInt(IPPROTO_IP), IP_TRANSPARENT, &on, 4)
      }
      guard endpoint.withAddress({ bind(listener, $0, $1) }) == 0, listen(listener, 1) == 0 else {
        throw CommandError("listen on \(address): errno \(errno)")
      }
      return listener
    }
    defer { close(listener) }
    let port = try Endpoint.name(of: listener).port
    let target = try Endpoint(
      options.isDualStack ? "::ffff:\(address)" : address, port: port)
    self.client = try namespace.perform { try Self.connected(to: target, options) }
    guard Patience(.seconds(10)).awaitInput(of: listener) else {
      throw CommandError("no connection from \(address)")
    }
    self.server = accept(listener, nil, nil)
    let own = try Endpoint.name(of: self.client)
    self.local = own.address
    self.localEndpoint = own.text
    self.remoteEndpoint = target.text
  }

  private static func connected(to target: Endpoint, _ options: Options) throws -> CInt {
    let client = socket(target.family, Self.type, 0)
    if let mark = options.mark { Self.set(SO_MARK, CInt(bitPattern: mark), on: client) }
    if let link = options.link {
      setsockopt(client, SOL_SOCKET, SO_BINDTODEVICE, link, socklen_t(link.utf8.count))
    }
    if options.source != nil || options.sourcePort != 0 {
      Self.set(SO_REUSEADDR, 1, on: client)
      let any = target.family == AF_INET ? "0.0.0.0" : "::"
      let source = try Endpoint(options.source ?? any, port: options.sourcePort)
      guard source.withAddress({ bind(client, $0, $1) }) == 0 else {
        throw CommandError("bind to \(source.text): errno \(errno)")
      }
    }
    // Limits a hang: connect(2) waits as long as the send timeout.
    var limit = timeval(tv_sec: 10, tv_usec: 0)
    setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
    guard target.withAddress({ connect(client, $0, $1) }) == 0 else {
      throw CommandError("connect to \(target.text): errno \(errno)")
    }
    return client
  }

  private static func set(_ option: CInt, _ value: CInt, on descriptor: CInt) {
    var value = value
    setsockopt(descriptor, SOL_SOCKET, option, &value, socklen_t(MemoryLayout<CInt>.size))
  }

  deinit {
    close(self.client)
    close(self.server)
  }

  fileprivate static let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)

  /// Whether data sent now is answered in time. (Arriving is not enough: packets from a lost
  /// address may arrive, and cannot be answered.)
  func carries(within deadline: Duration) -> Bool {
    self.sent += 1
    guard Self.send(self.sent, on: self.client) else { return false }
    return Self.receives(self.sent, on: self.server, within: deadline)
      && Self.send(self.sent, on: self.server)
      && Self.receives(self.sent, on: self.client, within: deadline)
  }

  /// Starts traffic in both directions until it is stopped.
  func startTraffic(every interval: Duration = .milliseconds(5)) -> Traffic {
    Traffic(client: self.client, server: self.server, every: interval)
  }

  /// Half-closes the client's side: a FIN follows the data.
  func endSending() { shutdown(self.client, CInt(SHUT_WR)) }

  /// Sends until the server's window is closed, because it does not read.
  func fillWindow() {
    let bytes = [UInt8](repeating: 0, count: 65_536)
    while Glibc.send(
      self.client, bytes, bytes.count, CInt(MSG_NOSIGNAL) | CInt(MSG_DONTWAIT)) > 0
    {}
  }

  /// Sends without waiting for an answer; TCP retransmits.
  func send() -> Bool {
    self.sent += 1
    return Self.send(self.sent, on: self.client)
  }

  private static func send(_ byte: UInt8, on descriptor: CInt) -> Bool {
    var byte = byte
    return Glibc.send(descriptor, &byte, 1, CInt(MSG_NOSIGNAL)) == 1
  }

  /// Lost bytes that are retransmitted come first.
  private static func receives(
    _ expected: UInt8, on descriptor: CInt, within deadline: Duration
  ) -> Bool {
    var byte: UInt8 = 0
    while byte != expected {
      guard Self.isReadable(descriptor, within: deadline), recv(descriptor, &byte, 1, 0) == 1
      else { return false }
    }
    return true
  }

  private static func isReadable(_ descriptor: CInt, within deadline: Duration) -> Bool {
    var wait = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    let milliseconds =
      deadline.components.seconds * 1000 + deadline.components.attoseconds / 1_000_000_000_000_000
    return poll(&wait, 1, CInt(milliseconds)) > 0
  }
}

extension NetworkNamespace {
  /// Exchanges packets with a host, so that both learn each other's MAC address: a connection that
  /// the host refuses.
  func exchange(with address: String) throws {
    let discard = try Endpoint(address, port: 9)
    try self.perform {
      let socket = socket(discard.family, TCPConnection.type, 0)
      defer { Glibc.close(socket) }
      var limit = timeval(tv_sec: 20, tv_usec: 0)
      setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
      guard discard.withAddress({ connect(socket, $0, $1) }) != 0, errno == ECONNREFUSED else {
        throw CommandError("\(address) does not answer: errno \(errno)")
      }
    }
  }
}
