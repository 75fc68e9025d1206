import ArgumentParser
import ConnectivityClient
import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization

/// A minimal HTTP client with a connection for each request. It is swift-nio's own example with one
/// additional line.
struct HTTPClient: Sendable {
  let host: Host
  /// How connections are guarded, or `nil` if they are not.
  let guarding: ConnectivityGuardHandler.Config?

  private typealias Exchange = NIOAsyncChannel<HTTPClientResponsePart, HTTPClientRequestPart>

  init(_ host: Host, socket: String, plain: Bool) {
    self.host = host
    var guarding = ConnectivityGuardHandler.Config.defaults
    guarding.socket = ConndSocket(path: socket)
    self.guarding = plain ? nil : guarding
  }

  /// Gets a resource of the server.
  ///
  /// - Parameter access: The networks that the connection may use.
  /// - Returns: Its number of bytes.
  func get(_ name: String, over access: NetworkAccess = .unrestricted) async throws -> Int {
    var guarding = self.guarding
    guarding?.access = access
    let exchange = try await Self.connect(to: self.host, guarding)
    return try await exchange.executeThenClose { inbound, outbound in
      let head = HTTPRequestHead(
        version: .http1_1, method: .GET, uri: "/\(name)", headers: ["host": self.host.address])
      try await outbound.write(.head(head))
      try await outbound.write(.end(nil))
      var count = 0
      for try await part in inbound {
        switch part {
        case .head: break
        case .body(let bytes): count += bytes.readableBytes
        case .end: return count
        }
      }
      try Task.checkCancellation()
      throw ChannelError.eof
    }
  }

  private static func connect(
    to host: Host, _ guarding: ConnectivityGuardHandler.Config?
  ) async throws -> Exchange {
    try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .connect(host: host.address, port: host.port) { channel in
        channel.eventLoop.makeCompletedFuture {
          if let guarding {
            // The additional line.
            try channel.pipeline.syncOperations.addHandler(
              ConnectivityGuardHandler(config: guarding))
          }
          try channel.pipeline.syncOperations.addHTTPClientHandlers()
          return try Exchange(wrappingChannelSynchronously: channel)
        }
      }
  }
}

/// Answers requests for `/N` with N bytes, and reports the client, until it is killed. The first
/// request for `/N?slow` gets half of them and then nothing; later ones get all.
struct ServeHTTP: AsyncParsableCommand {
  static let configuration = CommandConfiguration(commandName: "serve-http")

  @Option var port: Int

  func run() async throws {
    let isSlow = Atomic(true)
    let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .childChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.configureHTTPServerPipeline()
          try channel.pipeline.syncOperations.addHandler(
            Answers {
              isSlow.exchange(false, ordering: .relaxed)
            })
        }
      }
      .bind(host: "0.0.0.0", port: self.port).get()
    report("ready")
    try await server.closeFuture.get()
  }

  private final class Answers: ChannelInboundHandler, Sendable {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private let isSlow: @Sendable () -> Bool

    init(_ isSlow: @escaping @Sendable () -> Bool) { self.isSlow = isSlow }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      guard case .head(let head) = self.unwrapInboundIn(data) else { return }
      let words = head.uri.dropFirst().split(separator: "?")
      let count = words.first.flatMap { Int($0) } ?? 0
      let stops = words.last == "slow" && self.isSlow()
      report("request", ["message": head.uri, "remote": context.remoteAddress?.ipAddress])
      context.write(
        self.wrapOutboundOut(
          .head(
            HTTPResponseHead(
              version: .http1_1, status: .ok, headers: ["content-length": "\(count)"]))),
        promise: nil)
      let bytes = context.channel.allocator.buffer(
        repeating: 0x2A, count: stops ? count / 2 : count)
      context.writeAndFlush(self.wrapOutboundOut(.body(.byteBuffer(bytes))), promise: nil)
      if !stops { context.writeAndFlush(self.wrapOutboundOut(.end(nil)), promise: nil) }
    }
  }
}
