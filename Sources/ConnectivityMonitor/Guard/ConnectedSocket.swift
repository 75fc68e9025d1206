internal import Connectivity
private import LinuxSupport

#if canImport(Glibc)
  private import Glibc
#elseif canImport(Musl)
  private import Musl
#else
  private import Darwin
#endif

/// A connected socket of any library, with its data from the kernel.
struct ConnectedSocket: SocketOptions, Sendable {
  let descriptor: CInt
  let remote: IPAddress
  let remotePort: UInt16
  let local: IPAddress
  let localPort: UInt16
  /// The IANA number of the protocol. For Multipath TCP, the number of TCP.
  let number: UInt8
  /// The kernel's cookie, which distinguishes the socket from a later one with the same descriptor.
  private let cookie: UInt64

  /// - Throws: ``ConndError`` unless the descriptor is a connected IP socket.
  init(descriptor: CInt) throws(ConndError) {
    self.descriptor = descriptor
    (self.remote, self.remotePort) = try Self.name("getpeername", getpeername, descriptor)
    (self.local, self.localPort) = try Self.name("getsockname", getsockname, descriptor)
    let number = Self.option(Self.protocolOption, of: descriptor, CInt(0)) ?? 0
    self.number = UInt8(exactly: number) ?? Transport.tcp
    self.cookie = Self.option(Self.cookieOption, of: descriptor, UInt64(0)) ?? 0
  }

  /// Whether the descriptor still belongs to the socket.
  var isOpen: Bool {
    Self.option(Self.cookieOption, of: self.descriptor, UInt64(0)) == self.cookie
  }

  /// Ends the connection. A reader immediately gets an error, and the owner must still close the
  /// descriptor. Has no effect if the descriptor is already closed.
  ///
  /// - Parameter link: The index of the link that the connection was made on, or `nil` if unknown.
  func end(link: UInt32?) {
    guard self.isOpen else { return }
    if self.number == Transport.tcp {
      self.end(self.descriptor, link: link)
    } else {
      shutdown(self.descriptor, CInt(SHUT_RDWR))
    }
  }

  // Constants that C library modules lack, or that are specific to Linux (asm-generic/socket.h).
  private static let protocolOption: CInt = 38  // SO_PROTOCOL
  private static let cookieOption: CInt = 57  // SO_COOKIE

  func option<Value: BitwiseCopyable & Sendable>(
    _ level: CInt, _ name: CInt, _ empty: Value
  ) -> Value? {
    Self.option(name, of: self.descriptor, empty, level: level)
  }

  private static func option<Value: BitwiseCopyable>(
    _ name: CInt, of descriptor: CInt, _ empty: Value, level: CInt = SOL_SOCKET
  ) -> Value? {
    var value = empty
    var length = socklen_t(MemoryLayout<Value>.size)
    return getsockopt(descriptor, level, name, &value, &length) == 0 ? value : nil
  }

  func set(_ level: CInt, _ name: CInt, _ value: CInt) -> Bool {
    var value = value
    let length = socklen_t(MemoryLayout<CInt>.size)
    return setsockopt(self.descriptor, level, name, &value, length) == 0
  }

  private static func name(
    _ words: String,
    _ read: (CInt, UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> CInt,
    _ descriptor: CInt
  ) throws(ConndError) -> (IPAddress, UInt16) {
    var storage = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    let result = withUnsafeMutablePointer(to: &storage) { storage in
      storage.withMemoryRebound(to: sockaddr.self, capacity: 1) { read(descriptor, $0, &length) }
    }
    guard result == 0 else {
      throw ConndError(
        .notGuardable, "descriptor \(descriptor): \(words): \(SystemError())")
    }
    guard let name = withUnsafeBytes(of: storage, SocketName.init)?.unmapped else {
      throw ConndError(
        .notGuardable, "descriptor \(descriptor) is not an IPv4 or IPv6 socket")
    }
    return (name.address, name.port)
  }
}
