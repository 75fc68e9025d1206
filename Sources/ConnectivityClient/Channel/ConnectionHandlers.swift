internal import Connectivity
private import Glibc
internal import NIOCore
private import NIOHTTP2

/// Ends a connection from its lowest end, so that no handler above has a say.
///
/// A TLS handler that is asked to close waits five seconds for the other side to agree, and the other side is not to be
/// reached.
struct ConnectionCutter: Sendable {
  private let channel: any NIOCore.Channel
  private let bound: NIOLoopBound<Handler>

  /// To be made on the channel's thread.
  init(_ channel: any NIOCore.Channel) {
    self.channel = channel
    self.bound = NIOLoopBound(Handler(), eventLoop: channel.eventLoop)
  }

  /// To be added at the first position of the pipeline, on the channel's thread.
  var handler: some ChannelInboundHandler { self.bound.value }

  var closeFuture: EventLoopFuture<Void> { self.channel.closeFuture }

  /// Closes the connection without waiting for anything. The kernel forgets it at once, with what it has yet to send.
  func cut() {
    self.channel.eventLoop.execute { self.bound.value.cut() }
  }

  private final class Handler: ChannelInboundHandler {
    typealias InboundIn = NIOAny
    private var context: ChannelHandlerContext?

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func cut() {
      guard let context else { return }
      // A reset instead of a FIN that would be sent again for minutes.
      (context.channel as? any SocketOptionProvider)?.setSoLinger(linger(l_onoff: 1, l_linger: 0))
        .whenComplete { _ in }
      context.close(mode: .all, promise: nil)
    }
  }
}

extension ChannelPipeline.SynchronousOperations {
  /// Watches a connection of gRPC's.
  func observeHTTP2(
    onActive: @escaping (_ local: IPAddress) -> Void, onGoAway: @escaping () -> Void
  ) throws {
    let http2 = try self.handler(type: NIOHTTP2Handler.self)
    try self.addHandler(
      HTTP2Observer(onActive: onActive, onGoAway: onGoAway), position: .after(http2))
  }
}

/// Tells what gRPC's handlers, which come after it, keep for themselves.
private final class HTTP2Observer: ChannelInboundHandler {
  typealias InboundIn = HTTP2Frame
  typealias InboundOut = HTTP2Frame

  private let onActive: (IPAddress) -> Void
  private let onGoAway: () -> Void

  init(onActive: @escaping (IPAddress) -> Void, onGoAway: @escaping () -> Void) {
    self.onActive = onActive
    self.onGoAway = onGoAway
  }

  func channelActive(context: ChannelHandlerContext) {
    if let local = context.channel.localAddress?.ip { self.onActive(local) }
    context.fireChannelActive()
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    if case .goAway = self.unwrapInboundIn(data).payload { self.onGoAway() }
    context.fireChannelRead(data)
  }
}

extension NIOCore.SocketAddress {
  /// The IP address, without its port and zone; `nil` for a Unix socket.
  var ip: IPAddress? {
    self.ipAddress.flatMap { IPAddress(String($0.prefix { $0 != "%" })) }
  }
}
