internal import Connectivity
internal import NIOCore
private import NIOHTTP2

#if canImport(Glibc)
  private import Glibc
#elseif canImport(Musl)
  private import Musl
#else
  private import Darwin
#endif

/// Ends a connection from its lowest end, so that no handler above has a say.
///
/// A TLS handler that is asked to close waits five seconds for the other side to agree, and the other side is not to be
/// reached.
struct ConnectionCutter: Sendable {
  private let channel: any NIOCore.Channel
  private let bound: NIOLoopBound<Handler>

  /// To be made on the channel's thread.
  ///
  /// - Parameter onInactive: Called as soon as the connection is closed, before anybody above hears of it, on the channel's thread.
  init(_ channel: any NIOCore.Channel, onInactive: @escaping () -> Void = {}) {
    self.channel = channel
    self.bound = NIOLoopBound(Handler(onInactive), eventLoop: channel.eventLoop)
  }

  /// To be added at the first position of the pipeline, on the channel's thread.
  var handler: some ChannelInboundHandler { self.bound.value }

  var closeFuture: EventLoopFuture<Void> { self.channel.closeFuture }

  /// Closes the connection without waiting for anything. The kernel forgets it at once, with what it has yet to send.
  ///
  /// - Parameters:
  ///   - link: The index of the link that the connection was made on; `nil` where it is not known.
  ///   - announce: Called right before, on the channel's thread.
  func cut(link: UInt32? = nil, _ announce: @escaping @Sendable () -> Void = {}) {
    self.channel.eventLoop.execute {
      announce()
      self.bound.value.cut(link)
    }
  }

  private struct NoLink: Error {}

  private final class Handler: ChannelInboundHandler {
    typealias InboundIn = NIOAny
    private var context: ChannelHandlerContext?
    private let onInactive: () -> Void

    init(_ onInactive: @escaping () -> Void) { self.onInactive = onInactive }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func channelInactive(context: ChannelHandlerContext) {
      self.onInactive()
      context.fireChannelInactive()
    }

    func cut(_ link: UInt32?) {
      guard let context else { return }
      if let options = context.channel as? any SocketOptionProvider {
        self.keepOffOtherLinks(options, link)
        // A reset instead of a FIN that would be sent again for minutes.
        options.setSoLinger(linger(l_onoff: 1, l_linger: 0)).whenComplete { _ in }
      }
      context.close(mode: .all, promise: nil)
    }

    /// The reset goes out by the old link or not at all. By the new one it would bear the old one's address, and so would
    /// the kernel's question for the new gateway (ARP's sender is the packet's source): a router that filters by
    /// reverse path does not answer that, and everybody's first packets wait a second for the next question.
    private func keepOffOtherLinks(_ options: any SocketOptionProvider, _ link: UInt32?) {
      // 0 stands for an index that connd did not name.
      let bound: EventLoopFuture<Void>? = link.flatMap { $0 == 0 ? nil : $0 }.map {
        options.unsafeSetSocketOption(
          level: .socket, name: .bindToLink, value: CInt(bitPattern: $0))
      }
      // On the channel's own thread these are done when they return.
      (bound ?? context?.eventLoop.makeFailedFuture(NoLink()))?.whenFailure { _ in
        options.unsafeSetSocketOption(level: .socket, name: .dontRoute, value: CInt(1))
          .whenComplete { _ in }
      }
    }
  }
}

extension ChannelPipeline.SynchronousOperations {
  /// Watches a connection of gRPC's.
  func observeHTTP2(
    onActive: @escaping (_ local: IPAddress, _ port: UInt16) -> Void,
    onSettings: @escaping () -> Void, onGoAway: @escaping () -> Void
  ) throws {
    let http2 = try self.handler(type: NIOHTTP2Handler.self)
    try self.addHandler(
      HTTP2Observer(onActive: onActive, onSettings: onSettings, onGoAway: onGoAway),
      position: .after(http2))
  }
}

/// Tells what gRPC's handlers, which come after it, keep for themselves.
private final class HTTP2Observer: ChannelInboundHandler {
  typealias InboundIn = HTTP2Frame
  typealias InboundOut = HTTP2Frame

  private let onActive: (IPAddress, UInt16) -> Void
  private let onSettings: () -> Void
  private let onGoAway: () -> Void

  init(
    onActive: @escaping (IPAddress, UInt16) -> Void, onSettings: @escaping () -> Void,
    onGoAway: @escaping () -> Void
  ) {
    self.onActive = onActive
    self.onSettings = onSettings
    self.onGoAway = onGoAway
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
    default: break
    }
    context.fireChannelRead(data)
  }
}

extension NIOCore.SocketAddress {
  /// The IP address, without its port and zone, and as IPv4 where a dual-stack socket maps it; `nil` for a Unix socket.
  var ip: IPAddress? {
    self.ipAddress.flatMap { IPAddress(String($0.prefix { $0 != "%" }))?.unmapped }
  }

  /// The link that a connection to a link-local address is bound to; `nil` for other addresses.
  var link: String? {
    guard self.ip?.needsLink == true, case .v6(let address) = self else { return nil }
    return linkName(address.address.sin6_scope_id)
  }

  /// The port; 0 where there is none.
  var ipPort: UInt16 { self.port.flatMap { UInt16(exactly: $0) } ?? 0 }
}
