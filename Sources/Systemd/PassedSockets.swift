import CSystemd
import Glibc
import LinuxSupport

/// The sockets that systemd passed to this service (`sd_listen_fds(3)`), by kind.
public struct PassedSockets: Sendable, Equatable {
  /// A socket that systemd passed. Its descriptor belongs to the code that took it, and is
  /// close-on-exec.
  public struct Socket: Sendable, Equatable {
    /// The value of `FileDescriptorName=`, or the name of the socket unit by default.
    public let name: String
    public let descriptor: Int32
    public let kind: Kind
  }

  /// The kind of a passed socket.
  public enum Kind: Sendable, Hashable {
    /// A Unix stream socket that accepts connections. Its path is `nil` if it is abstract.
    case unixListener(path: String?)
    /// An rtnetlink socket, as `ListenNetlink=route` opens it.
    case netlinkRoute
    /// A socket that this service cannot use.
    case other
  }

  public let sockets: [Socket]

  /// No sockets, so that the process opens its own.
  public static let none = PassedSockets(sockets: [])

  /// The sockets that accept connections.
  public var unixListeners: [Socket] {
    self.sockets.filter { if case .unixListener = $0.kind { true } else { false } }
  }

  /// The first socket that accepts connections.
  public var unixListener: Socket? { self.unixListeners.first }

  /// The first rtnetlink socket.
  public var netlinkRoute: Socket? { self.sockets.first { $0.kind == .netlinkRoute } }

  /// Takes the sockets that systemd passed, and clears `LISTEN_FDS`, `LISTEN_PID` and
  /// `LISTEN_FDNAMES`, so that they are not taken twice. Ignores sockets for another process
  /// (`LISTEN_PID`).
  ///
  /// Not thread-safe, because it changes the environment: call it once, at the start of `main`,
  /// before the process starts threads.
  ///
  /// - Throws: If the variables (`EINVAL`, `ERANGE`) or the descriptors (`EBADF`) are invalid.
  public static func take() throws(SystemdError) -> PassedSockets {
    var names: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?
    let count = sd_listen_fds_with_names(1, &names)
    defer {
      if let names {
        // The list ends with a null pointer, and exists only if there are sockets.
        var name = names
        while let text = name.pointee {
          free(text)
          name += 1
        }
        free(names)
      }
    }
    guard count >= 0 else { throw SystemdError("LISTEN_FDS", errno: -count) }
    return PassedSockets(
      sockets: (0..<count).map { index in
        let descriptor = SD_LISTEN_FDS_START + index
        let name = names?[Int(index)].map { String(cString: $0) } ?? "unknown"
        return Socket(name: name, descriptor: descriptor, kind: Self.kind(of: descriptor))
      })
  }

  static func kind(of descriptor: Int32) -> Kind {
    if sd_is_socket_unix(descriptor, Int32(SOCK_STREAM.rawValue), 1, nil, 0) > 0 {
      return .unixListener(path: UnixAddress.path(of: descriptor))
    }
    if Self.option(SO_DOMAIN, of: descriptor) == AF_NETLINK,
      Self.option(SO_PROTOCOL, of: descriptor) == routeProtocol
    {
      return .netlinkRoute
    }
    return .other
  }

  private static func option(_ name: Int32, of descriptor: Int32) -> Int32? {
    var value: Int32 = 0
    var size = socklen_t(MemoryLayout<Int32>.size)
    return getsockopt(descriptor, SOL_SOCKET, name, &value, &size) == 0 ? value : nil
  }
}

/// `NETLINK_ROUTE` of linux/netlink.h.
private let routeProtocol: Int32 = 0
