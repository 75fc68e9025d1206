import CLinux
import GRPCNIOTransportHTTP2Posix
import NIOCore
import NIOPosix

/// Accepts gRPC's connections on a socket that is already listening, and tells who is at the other end of each.
struct UnixListener: HTTP2ServerTransport.ListenerFactory {
  let eventLoopGroup: any EventLoopGroup
  /// A listening socket; the transport closes it.
  let descriptor: CInt

  func makeListeningChannel(
    listenerConfigurator: HTTP2ServerTransport.ListenerConfigurator,
    connectionConfigurator: HTTP2ServerTransport.ConnectionConfigurator
  ) async throws -> NIOAsyncChannel<
    HTTP2ServerTransport.ConnectionConfigurator.ConnectionChannel, Never
  > {
    try await ServerBootstrap(group: self.eventLoopGroup)
      .serverChannelInitializer { channel in
        listenerConfigurator.configure(channel: channel)
      }
      .bind(self.descriptor) { channel in
        PeerCredentials.read(of: channel).flatMap { credentials in
          channel.eventLoop.makeCompletedFuture {
            try channel.pipeline.syncOperations.addHandler(PeerHandler(credentials))
          }
        }.flatMap {
          connectionConfigurator.configure(channel: channel, tls: .none)
        }.flatMapError { error in
          channel.close(promise: nil)
          return channel.eventLoop.makeFailedFuture(error)
        }
      }
  }
}

extension HTTP2ServerTransport.Custom<UnixListener> {
  /// The transport that serves a listening Unix socket.
  convenience init(
    listeningOn descriptor: CInt, eventLoopGroup: any EventLoopGroup
  ) {
    var config = Config.defaults
    // A change is one small message: to wait for more of them would only make it late.
    config.connection.flushCoalescing = nil
    // Requests are addresses and numbers.
    config.rpc.maxRequestPayloadSize = 64 << 10
    config.channelDebuggingCallbacks.onAcceptHTTP2Stream = { stream in
      stream.eventLoop.makeCompletedFuture {
        try stream.pipeline.syncOperations.addHandler(PeerHeaderHandler(stream), position: .first)
      }
    }
    self.init(
      listenerFactory: UnixListener(eventLoopGroup: eventLoopGroup, descriptor: descriptor),
      config: config)
  }
}
