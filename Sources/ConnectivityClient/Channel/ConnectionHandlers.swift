internal import Connectivity
internal import ConnectivityMonitor
private import LinuxSupport
internal import NIOCore
private import NIOHTTP2

#if canImport(Glibc)
  private import Glibc
#elseif canImport(Musl)
  private import Musl
#else
  private import Darwin
#endif

/// Closes a connection from the bottom of its pipeline, so that no handler above can delay it.
///
/// A TLS handler waits up to five seconds for the close_notify of an unreachable peer. An
/// application may add such a handler at the beginning of the pipeline. Therefore the handler that
/// closes the connection is added last, right before the close.
///
/// Implements rules C2 and C3.
struct ConnectionCutter: Sendable {
  let channel: any NIOCore.Channel

  var closeFuture: EventLoopFuture<Void> { self.channel.closeFuture }

  /// Closes the connection without waiting. The kernel drops it immediately, with all unsent data.
  ///
  /// - Parameters:
  ///   - link: The index of the link that the connection was made on, or `nil` if unknown.
  ///   - announce: Called right before the close, on the channel's thread.
  func cut(link: UInt32? = nil, _ announce: @escaping @Sendable () -> Void = {}) {
    self.channel.eventLoop.execute {
      announce()
      let handler = Handler(link)
      // This fails only if the channel is already closed.
      try? self.channel.pipeline.syncOperations.addHandler(handler, position: .first)
    }
  }

  private struct NoLink: Error {}

  /// Closes the connection when it is added.
  private final class Handler: ChannelInboundHandler {
    typealias InboundIn = NIOAny
    private let link: UInt32?

    init(_ link: UInt32?) { self.link = link }

    func handlerAdded(context: ChannelHandlerContext) {
      if let options = context.channel as? any SocketOptionProvider {
        self.keepOffOtherLinks(options, context.eventLoop)
        // A reset, because a FIN would be retransmitted for minutes.
        options.setSoLinger(linger(l_onoff: 1, l_linger: 0)).whenComplete { _ in }
      }
      context.close(mode: .all, promise: nil)
    }

    /// Limits the reset to the old link. On the new link, the reset would have the old link's
    /// address. The kernel's ARP request for the new gateway would have it too, because ARP uses
    /// the packet's source. A router with reverse path filtering ignores that request, and all
    /// first packets then wait a second for the next request.
    private func keepOffOtherLinks(
      _ options: any SocketOptionProvider, _ eventLoop: any EventLoop
    ) {
      // 0 means that connd did not report an index.
      let bound: EventLoopFuture<Void>? = self.link.flatMap { $0 == 0 ? nil : $0 }.map {
        options.unsafeSetSocketOption(
          level: .socket, name: .bindToLink, value: CInt(bitPattern: $0))
      }
      // On the channel's thread, these calls have completed when they return.
      (bound ?? eventLoop.makeFailedFuture(NoLink())).whenFailure { _ in
        options.unsafeSetSocketOption(level: .socket, name: .dontRoute, value: CInt(1))
          .whenComplete { _ in }
      }
    }
  }
}

extension ChannelPipeline.SynchronousOperations {
  /// Observes a gRPC connection.
  ///
  /// - Parameters:
  ///   - onRead: Called when bytes arrive.
  ///   - onError: Called with each error of the socket.
  ///   - onInactive: Called when the connection is closed, before gRPC's handlers learn of it.
  /// - Returns: A function that sends a PING, for the connection's thread.
  func observeHTTP2(
    onActive: @escaping (_ local: IPAddress, _ port: UInt16) -> Void,
    onRead: @escaping () -> Void, onSettings: @escaping () -> Void,
    onGoAway: @escaping () -> Void, onError: @escaping (any Error) -> Void,
    onInactive: @escaping () -> Void
  ) throws -> @Sendable () -> Void {
    let bytes = ByteObserver(onRead: onRead, onError: onError, onInactive: onInactive)
    try self.addHandler(bytes, position: .first)
    let http2 = try self.handler(type: NIOHTTP2Handler.self)
    let observer = HTTP2Observer(onActive: onActive, onSettings: onSettings, onGoAway: onGoAway)
    try self.addHandler(observer, position: .after(http2))
    let bound = NIOLoopBound(observer, eventLoop: self.eventLoop)
    return { bound.value.ping() }
  }
}

/// Reports the arrival of bytes, the errors and the end of a connection, from the bottom of its
/// pipeline.
private final class ByteObserver: ChannelInboundHandler {
  typealias InboundIn = NIOAny
  private let onRead: () -> Void
  private let onError: (any Error) -> Void
  private let onInactive: () -> Void

  init(
    onRead: @escaping () -> Void, onError: @escaping (any Error) -> Void,
    onInactive: @escaping () -> Void
  ) {
    self.onRead = onRead
    self.onError = onError
    self.onInactive = onInactive
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    self.onRead()
    context.fireChannelRead(data)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    self.onError(error)
    context.fireErrorCaught(error)
  }

  func channelInactive(context: ChannelHandlerContext) {
    self.onInactive()
    context.fireChannelInactive()
  }
}

/// Reports events that gRPC's handlers, which come later in the pipeline, do not expose.
private final class HTTP2Observer: ChannelInboundHandler {
  typealias InboundIn = HTTP2Frame
  typealias InboundOut = HTTP2Frame
  typealias OutboundOut = HTTP2Frame

  private let onActive: (IPAddress, UInt16) -> Void
  private let onSettings: () -> Void
  private let onGoAway: () -> Void
  private var context: ChannelHandlerContext?

  /// Marks this handler's own PINGs. gRPC's handler does not expect answers to them.
  private static let question = HTTP2PingData(withInteger: 0x636F_6E6E_6400_5734)

  init(
    onActive: @escaping (IPAddress, UInt16) -> Void, onSettings: @escaping () -> Void,
    onGoAway: @escaping () -> Void
  ) {
    self.onActive = onActive
    self.onSettings = onSettings
    self.onGoAway = onGoAway
  }

  func handlerAdded(context: ChannelHandlerContext) { self.context = context }

  func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

  /// Sends a PING to check whether the peer is alive.
  func ping() {
    guard let context = self.context else { return }
    let frame = HTTP2Frame(streamID: .rootStream, payload: .ping(Self.question, ack: false))
    context.writeAndFlush(self.wrapOutboundOut(frame), promise: nil)
  }

  func channelActive(context: ChannelHandlerContext) {
    if let local = context.channel.localAddress, let address = local.ip {
      self.onActive(address, local.ipPort)
    }
    context.fireChannelActive()
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    switch self.unwrapInboundIn(data).payload {
    case .settings(.settings): self.onSettings()
    case .goAway: self.onGoAway()
    case .ping(Self.question, ack: true): return
    default: break
    }
    context.fireChannelRead(data)
  }
}

extension NIOCore.SocketAddress {
  /// The IP address without port and zone, or `nil` for a Unix socket. IPv4-mapped addresses become
  /// IPv4.
  var ip: IPAddress? {
    self.ipAddress.flatMap { IPAddress(String($0.prefix { $0 != "%" }))?.unmapped }
  }

  /// The link that connect(2) binds a link-local connection to, or `nil` for other addresses.
  var link: String? {
    guard self.ip?.needsLink == true, case .v6(let address) = self else { return nil }
    return linkName(address.address.sin6_scope_id)
  }

  /// The port, or 0 for a Unix socket.
  var ipPort: UInt16 { self.port.flatMap { UInt16(exactly: $0) } ?? 0 }
}
