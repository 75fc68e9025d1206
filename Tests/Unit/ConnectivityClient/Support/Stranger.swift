import ConnectivityMonitor
import ConnectivityTestKit
import GRPCCore
import NIOCore
import NIOPosix
import TestKit

/// Another program at connd's socket.
enum Stranger {
  enum Kind: CaseIterable, Sendable {
    /// Sends bytes that no HTTP/2 client understands.
    case garbage
    /// A gRPC server without connd's service, as another version may be.
    case otherService
    /// Accepts, and never sends anything.
    case silence
  }

  /// Serves on a Unix socket while `body` runs.
  static func serving(
    _ kind: Kind, _ body: @Sendable (_ socket: ConndSocket) async throws -> Void
  ) async throws {
    let directory = try TemporaryDirectory()
    defer { withExtendedLifetime(directory) {} }
    let socket = "\(directory.path)/connd.sock"
    switch kind {
    case .garbage, .silence:
      let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
        .childChannelInitializer { channel in
          guard kind == .garbage else { return channel.eventLoop.makeSucceededVoidFuture() }
          return channel.pipeline.addHandler(Babbler())
        }
        .bind(unixDomainSocketPath: socket).get()
      try await body(ConndSocket(path: socket, guardsLoopback: true))
      try await listener.close()
    case .otherService:
      try await Listener.serving([EchoServer()], at: Listener.socket(socket)) { _ in
        try await body(ConndSocket(path: socket, guardsLoopback: true))
      }
    }
  }

  private final class Babbler: ChannelInboundHandler, Sendable {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    func channelActive(context: ChannelHandlerContext) {
      let words = ByteBuffer(string: "220 mail.example.com ESMTP\r\n")
      context.writeAndFlush(self.wrapOutboundOut(words), promise: nil)
    }
  }
}
