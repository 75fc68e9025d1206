import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization

/// A server on loopback. It answers with hello, or for `/N` with N bytes, and never to `/hang`.
enum HTTPServer {
  /// The connections and requests that the server received.
  final class Connections: Sendable {
    private let state = Mutex((connections: 0, requests: 0))
    private let (changes, change) = AsyncStream.makeStream(of: Void.self)

    var count: Int { self.state.withLock { $0.connections } }

    /// Returns when this many requests were received.
    func requests(_ count: Int) async {
      if self.state.withLock({ $0.requests >= count }) { return }
      for await _ in self.changes where self.state.withLock({ $0.requests >= count }) { return }
    }

    fileprivate func connected() { self.state.withLock { $0.connections += 1 } }

    fileprivate func requested() {
      self.state.withLock { $0.requests += 1 }
      self.change.yield()
    }
  }

  /// Runs `body` with the server's URL.
  static func serving(_ body: (String, Connections) async throws -> Void) async throws {
    let connections = Connections()
    let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .childChannelInitializer { channel in
        connections.connected()
        return channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.configureHTTPServerPipeline()
          try channel.pipeline.syncOperations.addHandler(Handler(connections))
        }
      }
      .bind(host: "127.0.0.1", port: 0).get()
    let port = listener.localAddress?.port ?? 0
    do {
      try await body("http://127.0.0.1:\(port)", connections)
    } catch {
      try? await listener.close()
      throw error
    }
    try await listener.close()
  }

  private final class Handler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private let connections: Connections

    init(_ connections: Connections) { self.connections = connections }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      guard case .head(let head) = self.unwrapInboundIn(data) else { return }
      self.connections.requested()
      if head.uri == "/hang" { return }
      let body = Int(head.uri.dropFirst()).map { String(repeating: "x", count: $0) } ?? "hello"
      let headers: HTTPHeaders = ["content-length": "\(body.utf8.count)"]
      for part: HTTPServerResponsePart in [
        .head(HTTPResponseHead(version: .http1_1, status: .ok, headers: headers)),
        .body(.byteBuffer(ByteBuffer(string: body))), .end(nil),
      ] {
        context.write(self.wrapOutboundOut(part), promise: nil)
      }
      context.flush()
    }
  }
}
