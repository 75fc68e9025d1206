import Connectivity
import ConnectivityClient
import ConnectivityTestKit
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOWebSocket
import Testing

/// A WebSocket of swift-nio's, guarded by one handler: the example for any other protocol.
@Suite("WebSockets", .timeLimit(.minutes(5)))
struct WebSocketTests {
  private typealias Frames = NIOAsyncChannel<WebSocketFrame, WebSocketFrame>

  /// Echoes every frame.
  private static func server() async throws -> any Channel {
    try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .childChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          let upgrader = NIOWebSocketServerUpgrader(
            shouldUpgrade: { channel, _ in channel.eventLoop.makeSucceededFuture([:]) },
            upgradePipelineHandler: { channel, _ in
              channel.eventLoop.makeCompletedFuture {
                try channel.pipeline.syncOperations.addHandler(Echo())
              }
            })
          try channel.pipeline.syncOperations.configureHTTPServerPipeline(
            withServerUpgrade: (upgraders: [upgrader], completionHandler: { _ in }))
        }
      }
      .bind(host: "127.0.0.1", port: 0).get()
  }

  private final class Echo: ChannelInboundHandler, Sendable {
    typealias InboundIn = WebSocketFrame
    typealias OutboundOut = WebSocketFrame

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      let frame = self.unwrapInboundIn(data)
      let answer = WebSocketFrame(fin: true, opcode: .text, data: frame.unmaskedData)
      context.writeAndFlush(self.wrapOutboundOut(answer), promise: nil)
    }
  }

  /// A WebSocket client as swift-nio's own example has it, and one line more.
  private static func connect(
    to port: Int, _ configuration: ConnectivityGuardHandler.Configuration
  ) async throws -> Frames {
    try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .connect(host: "127.0.0.1", port: port) { channel in
        channel.eventLoop.makeCompletedFuture {
          // The line.
          try channel.pipeline.syncOperations.addHandler(ConnectivityGuardHandler(configuration))
          let upgrader = NIOTypedWebSocketClientUpgrader<Frames?>(
            upgradePipelineHandler: { channel, _ in
              channel.eventLoop.makeCompletedFuture {
                try NIOAsyncChannel(wrappingChannelSynchronously: channel)
              }
            })
          var headers = HTTPHeaders()
          headers.add(name: "Content-Length", value: "0")
          let head = HTTPRequestHead(version: .http1_1, method: .GET, uri: "/", headers: headers)
          let upgrade = NIOTypedHTTPClientUpgradeConfiguration<Frames?>(
            upgradeRequestHead: head, upgraders: [upgrader],
            notUpgradingCompletionHandler: { $0.eventLoop.makeSucceededFuture(nil) })
          return try channel.pipeline.syncOperations.configureUpgradableHTTPClientPipeline(
            configuration: .init(upgradeConfiguration: upgrade))
        }
      }
      .get() ?? { throw ChannelError.unknownLocalAddress }()
  }

  @Test("C10 a WebSocket whose network is gone ends with the reason, and the next one works")
  func guarded() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      let server = try await Self.server()
      let port = try #require(server.localAddress?.port)
      var configuration = ConnectivityGuardHandler.Configuration()
      configuration.socket = network.socket
      configuration.guardsLoopback = true
      for next in [NetworkConditions.cellular, .wired] {
        let frames = try await Self.connect(to: port, configuration)
        let reason = try await frames.executeThenClose { inbound, outbound in
          let hello = WebSocketFrame(
            fin: true, opcode: .text, maskKey: .random(), data: ByteBuffer(string: "hello"))
          try await outbound.write(hello)
          do {
            for try await frame in inbound {
              #expect(String(buffer: frame.unmaskedData) == "hello")
              try await network.waitForFlows(atLeast: 1)
              network.become(next)
            }
            return nil as String?
          } catch let invalidation as FlowInvalidation {
            return invalidation.reason.rawValue
          }
        }
        #expect(reason != nil)
      }
      try await server.close()
    }
  }
}
