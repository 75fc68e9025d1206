import Glibc
import TestKit

/// A TCP connection between two namespaces: the judge of what connd says about it.
final class TCPConnection {
  private let client: CInt
  private let server: CInt
  /// The client's address, as text.
  let local: String
  private var sent: UInt8 = 0

  /// Connects to an address that the other namespace has.
  init(
    from namespace: NetworkNamespace, to other: NetworkNamespace, at address: String
  ) throws {
    let endpoint = try Endpoint(address)
    let listener = try other.perform {
      let listener = socket(endpoint.family, Int32(SOCK_STREAM.rawValue) | Self.closeOnExec, 0)
      guard endpoint.withAddress({ bind(listener, $0, $1) }) == 0, listen(listener, 1) == 0 else {
        throw CommandError("listen on \(address): errno \(errno)")
      }
      return listener
    }
    defer { close(listener) }
    let target = try Endpoint(address, port: Endpoint.port(of: listener))
    self.client = try namespace.perform {
      let client = socket(target.family, Int32(SOCK_STREAM.rawValue) | Self.closeOnExec, 0)
      // Guards against hanging: connect(2) waits for as long as sending may take.
      var limit = timeval(tv_sec: 10, tv_usec: 0)
      setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
      guard target.withAddress({ connect(client, $0, $1) }) == 0 else {
        throw CommandError("connect to \(address): errno \(errno)")
      }
      return client
    }
    guard Self.isReadable(listener, within: .seconds(10)) else {
      throw CommandError("no connection from \(address)")
    }
    self.server = accept(listener, nil, nil)
    self.local = try Endpoint.address(of: self.client)
  }

  deinit {
    close(self.client)
    close(self.server)
  }

  private static let closeOnExec = Int32(SOCK_CLOEXEC.rawValue)

  /// Whether what is sent now is answered in time. (That it arrives is not enough: what comes from an address that is gone
  /// may arrive, and cannot be answered.)
  func carries(within deadline: Duration) -> Bool {
    self.sent += 1
    guard Self.send(self.sent, on: self.client) else { return false }
    return Self.receives(self.sent, on: self.server, within: deadline)
      && Self.send(self.sent, on: self.server)
      && Self.receives(self.sent, on: self.client, within: deadline)
  }

  private static func send(_ byte: UInt8, on descriptor: CInt) -> Bool {
    var byte = byte
    return Glibc.send(descriptor, &byte, 1, CInt(MSG_NOSIGNAL)) == 1
  }

  /// Earlier bytes come first, where they had been lost.
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

/// An address and a port, IPv4 or IPv6.
private struct Endpoint {
  var family: CInt
  private var storage = sockaddr_storage()
  private var length: socklen_t

  init(_ text: String, port: in_port_t = 0) throws {
    var (ipv4, ipv6) = (sockaddr_in(), sockaddr_in6())
    if inet_pton(AF_INET, text, &ipv4.sin_addr) == 1 {
      ipv4.sin_family = sa_family_t(AF_INET)
      ipv4.sin_port = port
      self.family = AF_INET
      self.length = socklen_t(MemoryLayout<sockaddr_in>.size)
      withUnsafeMutableBytes(of: &self.storage) { storage in
        withUnsafeBytes(of: ipv4) { storage.copyMemory(from: $0) }
      }
    } else if inet_pton(AF_INET6, text, &ipv6.sin6_addr) == 1 {
      ipv6.sin6_family = sa_family_t(AF_INET6)
      ipv6.sin6_port = port
      self.family = AF_INET6
      self.length = socklen_t(MemoryLayout<sockaddr_in6>.size)
      withUnsafeMutableBytes(of: &self.storage) { storage in
        withUnsafeBytes(of: ipv6) { storage.copyMemory(from: $0) }
      }
    } else {
      throw CommandError("\(text) is no address")
    }
  }

  func withAddress(_ body: (UnsafePointer<sockaddr>, socklen_t) -> CInt) -> CInt {
    withUnsafePointer(to: self.storage) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, self.length) }
    }
  }

  private static func name(of descriptor: CInt) throws -> sockaddr_storage {
    var storage = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    let result = withUnsafeMutablePointer(to: &storage) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        getsockname(descriptor, $0, &length)
      }
    }
    guard result == 0 else { throw CommandError("getsockname: errno \(errno)") }
    return storage
  }

  /// In network order.
  static func port(of descriptor: CInt) throws -> in_port_t {
    // The port is at the same place in both families.
    try withUnsafeBytes(of: self.name(of: descriptor)) {
      $0.loadUnaligned(fromByteOffset: 2, as: in_port_t.self)
    }
  }

  static func address(of descriptor: CInt) throws -> String {
    let storage = try self.name(of: descriptor)
    let isIPv4 = storage.ss_family == sa_family_t(AF_INET)
    var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
    withUnsafeBytes(of: storage) { bytes in
      _ = inet_ntop(
        isIPv4 ? AF_INET : AF_INET6, bytes.baseAddress?.advanced(by: isIPv4 ? 4 : 8), &text,
        socklen_t(text.count))
    }
    return String(decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
  }
}
