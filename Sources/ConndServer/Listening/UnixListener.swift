import CLinux
import GRPCNIOTransportHTTP2Posix
import Glibc
import NIOCore
import NIOPosix

/// Accepts gRPC's connections on a socket that is already listening, as far as the limits go, and tells who is at the
/// other end of each.
struct UnixListener: HTTP2ServerTransport.ListenerFactory {
  let eventLoopGroup: any EventLoopGroup
  /// A listening socket; the transport closes it.
  let descriptor: CInt
  let doorkeeper: Doorkeeper

  func makeListeningChannel(
    listenerConfigurator: HTTP2ServerTransport.ListenerConfigurator,
    connectionConfigurator: HTTP2ServerTransport.ConnectionConfigurator
  ) async throws -> NIOAsyncChannel<
    HTTP2ServerTransport.ConnectionConfigurator.ConnectionChannel, Never
  > {
    let listening = try await ServerBootstrap(group: self.eventLoopGroup)
      .serverChannelInitializer { channel in
        listenerConfigurator.configure(channel: channel).flatMapThrowing {
          try channel.pipeline.syncOperations.addHandler(AcceptObserver(self.doorkeeper))
        }
      }
      // Requests are small. Who sends many at once has some of them read, and then it is the others' turn.
      .childChannelOption(.maxMessagesPerRead, value: 1)
      .childChannelOption(
        .recvAllocator,
        value: AdaptiveRecvByteBufferAllocator(minimum: 64, initial: 1024, maximum: 2048)
      )
      .bind(self.descriptor) { channel in
        PeerCredentials.read(of: channel).flatMapThrowing { peer in
          try self.doorkeeper.admit(.connections, peer)
          channel.closeFuture.whenComplete { _ in self.doorkeeper.release(.connections, peer) }
          try channel.pipeline.syncOperations.addHandler(PeerHandler(peer))
        }.flatMap {
          connectionConfigurator.configure(channel: channel, tls: .none)
        }.flatMapError { error in
          // A future that fails makes the transport skip the connection, and accept the next.
          Self.close(channel, because: error)
          return channel.eventLoop.makeFailedFuture(error)
        }
      }
    // NIO has made the queue 128 long (ServerSocketChannel.init). Of clients that come all at once, the others would not
    // wait: connect(2) of a Unix socket fails where it would have to block.
    listen(self.descriptor, SOMAXCONN)
    return listening
  }

  /// Closes a connection that is not served; who is turned away is told why.
  private static func close(_ channel: any Channel, because error: any Error) {
    if let refusal = error as? Doorkeeper.Refusal {
      // Past the channel, which does not write before it is registered, and that it is only when it is served. The
      // socket's buffer is empty: this fits in.
      let farewell = farewell(refusal.message)
      try? channel.pipeline.syncOperations.withUnsafeTransportIfAvailable(
        of: NIOBSDSocket.Handle.self
      ) { socket in
        _ = send(socket, farewell, farewell.count, CInt(MSG_NOSIGNAL))
      }
    }
    channel.close(promise: nil)
  }

  /// What HTTP/2 says to a client that is not served: its preface, which is an empty SETTINGS frame, and GOAWAY with
  /// ENHANCE_YOUR_CALM and the reason (RFC 9113, 3.4 and 6.8).
  private static func farewell(_ reason: String) -> [UInt8] {
    let length = 8 + UInt32(reason.utf8.count)
    return [0, 0, 0, 4, 0, 0, 0, 0, 0]
      + [UInt8(length >> 16), UInt8(length >> 8 & 0xFF), UInt8(length & 0xFF), 7, 0, 0, 0, 0, 0]
      + [0, 0, 0, 0, 0, 0, 0, 0xB] + Array(reason.utf8)
  }
}

/// Tells the doorkeeper how accepting goes, and stops it for a second where it fails, for want of descriptors mostly.
///
/// NIO's own pause (`AcceptBackoffHandler`) delays only what is read next. The read that failed stays pending, and the
/// event loop would come back to it without end, since somebody still waits.
private final class AcceptObserver: ChannelInboundHandler {
  typealias InboundIn = any Channel

  private let doorkeeper: Doorkeeper

  init(_ doorkeeper: Doorkeeper) {
    self.doorkeeper = doorkeeper
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    self.doorkeeper.accepted()
    context.fireChannelRead(data)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    self.doorkeeper.acceptFailed(error)
    let listener = context.channel
    listener.setOption(.autoRead, value: false).whenComplete { _ in
      listener.eventLoop.scheduleTask(in: .seconds(1)) {
        listener.setOption(.autoRead, value: true)
      }
    }
    context.fireErrorCaught(error)
  }
}

extension HTTP2ServerTransport.Custom<UnixListener> {
  /// The transport that serves a listening Unix socket.
  convenience init(
    listeningOn descriptor: CInt, eventLoopGroup: any EventLoopGroup, limits: Limits,
    doorkeeper: Doorkeeper
  ) {
    var config = Config.defaults
    // A change is one small message: to wait for more of them would only make it late.
    config.connection.flushCoalescing = nil
    config.http2.maxConcurrentStreams = limits.streamsPerConnection
    // What a stream may have sent that was not read. Not less than HTTP/2's own: NIO takes the difference off the windows of
    // streams that began before the client acknowledged it, and never widens those again (`InboundWindowManager`,
    // swift-nio-http2 1.46).
    config.http2.targetWindowSize = 65_535
    config.rpc.maxRequestPayloadSize = limits.messageSize
    config.channelDebuggingCallbacks.onAcceptHTTP2Stream = { stream in
      stream.eventLoop.makeCompletedFuture {
        let gate = try StreamGate(stream, doorkeeper, messageSize: limits.messageSize)
        try stream.pipeline.syncOperations.addHandler(gate, position: .first)
      }
    }
    self.init(
      listenerFactory: UnixListener(
        eventLoopGroup: eventLoopGroup, descriptor: descriptor, doorkeeper: doorkeeper),
      config: config)
  }
}
