import ArgumentParser
import Connectivity
import ConnectivityClient
import Glibc
import NIOCore
import NIOPosix
import TestKit

/// Makes plain guarded connections and echoes bytes on them, controlled by lines of standard input:
///
///     connect ID    makes one
///     echo ID       sends a byte, which comes back
///     other ID      makes one by another link, or reports why it may not
///     sync ID       is answered with "synced"
///     quit          exits, as does the end of the input
///
/// Each connection reports its guard's events, and its end.
struct Connections: AsyncParsableCommand {
  enum Guarding: String, ExpressibleByArgument {
    /// `ConnectivityGuardHandler`, for a connection made by NIO.
    case handler
    /// `SocketGuard`, for a connected socket.
    case socket
  }

  @Option(help: "ADDRESS:PORT; an IPv6 address in brackets, with its zone.") var target: String
  @Option(help: "connd's socket.") var socket: String
  @Option(help: "How they are guarded: handler or socket.") var by = Guarding.handler
  @Option(help: "The type of service (IP_TOS).") var tos: CInt = 0
  @Flag(help: "They are connections of Multipath TCP.") var mptcp = false
  @Flag(help: "The handler makes them connections of Multipath TCP if it can.") var multipath =
    false
  @Flag(help: "TCP's timeouts stay as they are.") var keepTimeouts = false
  @Option(help: "The IPv4 address that they come from, whoever's that is (IP_TRANSPARENT).")
  var source: String?

  private var options: SocketSettings {
    SocketSettings(tos: self.tos, isMultipath: self.mptcp, source: self.source)
  }

  func run() async throws {
    guard let host = Host(self.target) else { throw ValidationError("\(self.target) is no target") }
    var connections: [String: any PlainConnection] = [:]
    // Uses a thread that may block.
    while let line = try await NIOSingletons.posixBlockingThreadPool.runIfActive({ readLine() }) {
      let words = line.split(separator: " ").map(String.init)
      if words == ["quit"] { break }
      guard words.count == 2 else { throw ValidationError(line) }
      let id = words[1]
      switch words[0] {
      case "connect":
        do {
          connections[id] = try await self.connect(id, to: host)
        } catch {
          report("refused", ["id": id, "message": "\(error)"])
        }
      case "echo": try await connections[id]?.send()
      case "sync": report("synced", ["id": id])
      case "other": connections[id] = try await self.connectByOtherWay(id, to: host)
      default: throw ValidationError(line)
      }
    }
    report("quit")
  }

  private func connect(
    _ id: String, to host: Host, by link: UInt32 = 0
  ) async throws -> any PlainConnection {
    var options = self.options
    options.link = link
    switch self.by {
    case .socket:
      return try await NIOSingletons.posixBlockingThreadPool.runIfActive { [options] in
        try SocketConnection(
          id, to: host, options, connd: self.socket, shortensOutages: !self.keepTimeouts)
      }
    case .handler:
      return try await NIOConnection(
        id, to: host, options, connd: self.socket, self.multipath ? .handover : .none,
        shortensOutages: !self.keepTimeouts)
    }
  }

  private func connectByOtherWay(
    _ id: String, to host: Host
  ) async throws -> (any PlainConnection)? {
    let connd = ConndSocket(path: self.socket)
    var way: OtherWay?
    switch self.by {
    case .socket:
      guard let remote = IPAddress(host.address) else { throw ValidationError(host.address) }
      way = await SocketGuard.otherWay(to: remote, port: UInt16(host.port), socket: connd)
    case .handler:
      let address = try SocketAddress(ipAddress: host.address, port: host.port)
      way = await ConnectivityGuardHandler.otherWay(
        to: address, config: .defaults { $0.socket = connd })
    }
    guard let way, way.isAllowed, let link = way.path?.chain.first else {
      report("refused", ["id": id, "reason": way?.whyNot?.rawValue])
      return nil
    }
    return try await self.connect(id, to: host, by: link.index)
  }
}

/// Socket options set before connecting.
private struct SocketSettings {
  var tos: CInt
  var isMultipath: Bool
  var source: String?
  /// The index of the link that it is bound to, or 0.
  var link: UInt32 = 0

  static let bindToLink: CInt = 62  // SO_BINDTOIFINDEX
}

/// A connection to an echo server.
private protocol PlainConnection: Sendable {
  /// Sends a byte. Its return is reported.
  func send() async throws
}

// MARK: - By a handler

private struct NIOConnection: PlainConnection {
  private let channel: any Channel

  init(
    _ id: String, to host: Host, _ options: SocketSettings, connd: String,
    _ multipath: MultipathService, shortensOutages: Bool
  ) async throws {
    var configuration = ConnectivityGuardHandler.Config.defaults
    configuration.shortensOutages = shortensOutages
    configuration.multipath = multipath
    configuration.socket = ConndSocket(path: connd)
    var bootstrap = ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .enableMPTCP(options.isMultipath)
    let level = SocketOptionLevel(IPPROTO_IP)
    if options.tos != 0 {
      bootstrap = bootstrap.channelOption(
        ChannelOptions.socket(level, IP_TOS), value: .init(options.tos))
    }
    if options.link != 0 {
      let bindToLink = ChannelOptions.Types.SocketOption(
        level: .socket, name: .init(rawValue: SocketSettings.bindToLink))
      bootstrap = bootstrap.channelOption(bindToLink, value: .init(options.link))
    }
    if let source = options.source {
      bootstrap = bootstrap.channelOption(ChannelOptions.socket(level, IP_TRANSPARENT), value: 1)
        .bind(to: try SocketAddress(ipAddress: source, port: 0))
    }
    self.channel =
      try await bootstrap
      .channelInitializer { [configuration] channel in
        channel.eventLoop.makeCompletedFuture {
          let pipeline = channel.pipeline.syncOperations
          try pipeline.addHandler(ConnectivityGuardHandler(config: configuration))
          try pipeline.addHandler(Witness(id))
        }
      }
      .connect(host: host.address, port: host.port).get()
  }

  func send() async throws {
    try? await self.channel.writeAndFlush(ByteBuffer(string: "x"))
  }

  /// Reports its channel's events.
  private final class Witness: ChannelInboundHandler, Sendable {
    typealias InboundIn = ByteBuffer
    private let id: String

    init(_ id: String) { self.id = id }

    func channelActive(context: ChannelHandlerContext) {
      report("open", ["id": self.id, "local": context.localAddress?.ipAddress])
      context.fireChannelActive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      report("echoed", ["id": self.id])
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
      switch event as? ConnectionEvent {
      case .pathChanged(let path): report(path, of: self.id)
      case .invalidated(let invalidation): report(invalidation, of: self.id)
      default: break
      }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {}

    func channelInactive(context: ChannelHandlerContext) { report("ended", ["id": self.id]) }
  }
}

// MARK: - By its descriptor

private final class SocketConnection: PlainConnection {
  private let id: String
  private let descriptor: CInt
  private let watch: SocketGuard

  init(
    _ id: String, to host: Host, _ options: SocketSettings, connd: String, shortensOutages: Bool
  ) throws {
    let descriptor = try Self.connected(to: host, options)
    report("open", ["id": id])
    (self.id, self.descriptor) = (id, descriptor)
    self.watch = try SocketGuard(
      descriptor: descriptor,
      config: .defaults {
        $0.socket = ConndSocket(path: connd)
        ($0.isNew, $0.shutsDown) = (true, true)
        $0.shortensOutages = shortensOutages
      })
    let events = self.watch.events
    Task {
      for await event in events {
        switch event {
        case .pathChanged(let path): report(path, of: id)
        case .invalidated(let invalidation): report(invalidation, of: id)
        case .unguarded(let why): report("unguarded", ["id": id, "message": "\(why)"])
        case .viable, .notViable, .betterPathAvailable, .betterPathGone, .asked: break
        }
      }
    }
    startThread {
      var byte: UInt8 = 0
      while recv(descriptor, &byte, 1, 0) == 1 { report("echoed", ["id": id]) }
      report("ended", ["id": id])
    }
  }

  func send() async throws {
    var byte: UInt8 = 0
    Glibc.send(self.descriptor, &byte, 1, CInt(MSG_NOSIGNAL))
  }

  private static let multipath: CInt = 262  // IPPROTO_MPTCP

  private static func connected(to host: Host, _ options: SocketSettings) throws -> CInt {
    var hints = addrinfo()
    hints.ai_socktype = CInt(SOCK_STREAM.rawValue)
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV
    var found: UnsafeMutablePointer<addrinfo>?
    guard getaddrinfo(host.address, "\(host.port)", &hints, &found) == 0, let address = found else {
      throw ValidationError("\(host.address) is no address")
    }
    defer { freeaddrinfo(found) }
    let descriptor = Glibc.socket(
      address.pointee.ai_family, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue),
      options.isMultipath ? self.multipath : 0)
    func set(_ name: CInt, _ value: CInt, level: CInt = CInt(IPPROTO_IP)) {
      var value = value
      setsockopt(descriptor, level, name, &value, socklen_t(MemoryLayout<CInt>.size))
    }
    if options.link != 0 {
      set(SocketSettings.bindToLink, CInt(options.link), level: SOL_SOCKET)
    }
    if options.tos != 0 { set(IP_TOS, options.tos) }
    if let source = options.source {
      set(IP_TRANSPARENT, 1)
      let result = try SocketAddress(ipAddress: source, port: 0).withSockAddr {
        bind(descriptor, $0, socklen_t($1))
      }
      guard result == 0 else { throw ValidationError("bind to \(source): errno \(errno)") }
    }
    guard connect(descriptor, address.pointee.ai_addr, address.pointee.ai_addrlen) == 0 else {
      throw ValidationError("connect: errno \(errno)")
    }
    return descriptor
  }
}

private func report(_ path: KernelPath, of id: String) {
  report(
    "path", ["id": id, "message": path.interface ?? "none", "state": path.status.rawValue])
}

private func report(_ invalidation: InvalidationError, of id: String) {
  report(
    invalidation.severity.rawValue,
    ["id": id, "reason": invalidation.reason.rawValue, "message": invalidation.cause.change])
}

// MARK: - The server

/// Echoes all bytes, on all addresses of IPv4 and optionally IPv6, until it is killed.
struct ServeEchoes: AsyncParsableCommand {
  static let configuration = CommandConfiguration(commandName: "serve-echoes")

  @Option var port: Int
  @Flag(help: "By Multipath TCP, where the other side speaks it.") var mptcp = false
  @Flag(help: "On those of IPv6, too.") var ipv6 = false

  func run() async throws {
    let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .enableMPTCP(self.mptcp)
      .childChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(Echo())
        }
      }
      .bind(host: self.ipv6 ? "::" : "0.0.0.0", port: self.port).get()
    report("ready")
    try await server.closeFuture.get()
  }

  private final class Echo: ChannelInboundHandler, Sendable {
    typealias InboundIn = ByteBuffer

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      context.writeAndFlush(data, promise: nil)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
      context.close(promise: nil)
    }
  }
}
