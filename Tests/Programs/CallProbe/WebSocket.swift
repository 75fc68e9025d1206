import ArgumentParser
import Connectivity
import ConnectivityClient
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOWebSocket

/// A swift-nio WebSocket, guarded by one handler: the example for any other protocol. It sends one
/// word, and reports what it receives until the connection ends.
struct WebSocket: AsyncParsableCommand {
  static let configuration = CommandConfiguration(commandName: "websocket")

  private typealias Frames = NIOAsyncChannel<WebSocketFrame, WebSocketFrame>

  @Option(help: "ADDRESS:PORT") var target: String
  @Option(help: "connd's socket.") var socket: String
  @Flag(help: "It may not cost money.") var forbidExpensive = false
  @Flag(help: "It goes on where there is a better path, and says so on the connection.")
  var drain = false

  func run() async throws {
    guard let host = Host(self.target) else { throw ValidationError("\(self.target) is no target") }
    var configuration = ConnectivityGuardHandler.Config.defaults
    configuration.socket = ConndSocket(path: self.socket)
    if self.forbidExpensive { configuration.access.allowsExpensiveAccess = false }
    if self.drain { configuration.onInvalidation = .drain }
    let (events, event) = AsyncStream.makeStream(of: String.self)
    let frames: Frames
    do {
      frames = try await Self.connect(
        to: host, configuration, self.drain ? event : nil)
    } catch {
      let reason = NetworkUnavailableError.Reason(of: error)?.rawValue
      return report("refused", ["reason": reason, "message": "\(error)"])
    }
    try await frames.executeThenClose { inbound, outbound in
      try await outbound.write(
        WebSocketFrame(
          fin: true, opcode: .text, maskKey: .random(), data: ByteBuffer(string: "hello")))
      let saying = Task {
        for await event in events {
          report(event)
          try await outbound.write(
            WebSocketFrame(
              fin: true, opcode: .text, maskKey: .random(), data: ByteBuffer(string: event)))
        }
      }
      defer { saying.cancel() }
      do {
        for try await frame in inbound {
          report("message", ["message": String(buffer: frame.unmaskedData)])
        }
        report("ended")
      } catch let invalidation as InvalidationError {
        report("ended", ["reason": invalidation.reason.rawValue])
      }
    }
  }

  /// swift-nio's own example with one additional line.
  private static func connect(
    to host: Host, _ configuration: ConnectivityGuardHandler.Config,
    _ event: AsyncStream<String>.Continuation?
  ) async throws -> Frames {
    try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .connect(host: host.address, port: host.port) { channel in
        channel.eventLoop.makeCompletedFuture {
          // The additional line.
          try channel.pipeline.syncOperations.addHandler(
            ConnectivityGuardHandler(config: configuration))
          if let event {
            try channel.pipeline.syncOperations.addHandler(BetterPaths(event))
          }
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
}

/// Reports better paths from the guard.
private final class BetterPaths: ChannelInboundHandler, Sendable {
  typealias InboundIn = NIOAny

  private let told: AsyncStream<String>.Continuation

  init(_ told: AsyncStream<String>.Continuation) { self.told = told }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    switch event as? ConnectionEvent {
    case .betterPathAvailable: self.told.yield("betterPath")
    case .betterPathGone: self.told.yield("noBetterPath")
    default: break
    }
    context.fireUserInboundEventTriggered(event)
  }
}

/// Echoes every frame of every WebSocket, until it is killed.
struct ServeWebSocket: AsyncParsableCommand {
  static let configuration = CommandConfiguration(commandName: "serve-websocket")

  @Option var port: Int

  func run() async throws {
    let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
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
      .bind(host: "0.0.0.0", port: self.port).get()
    report("ready")
    try await server.closeFuture.get()
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
}
