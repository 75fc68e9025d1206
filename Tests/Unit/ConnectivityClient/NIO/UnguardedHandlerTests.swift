import Connectivity
import ConnectivityProtobuf
import ConnectivityProtocol
import NIOCore
import NIOPosix
import Testing

@testable import ConnectivityClient
@testable import ConnectivityMonitor

/// A handler that does not guard its connection says so.
@Suite("Unguarded SwiftNIO channels", .timeLimit(.minutes(5)), .namesWaits)
struct UnguardedHandlerTests {
  /// Reports the reasons of ``ConnectionEvent/unguarded(_:)``, and then the end.
  private final class Witness: ChannelInboundHandler, Sendable {
    typealias InboundIn = ByteBuffer
    private let reasons: AsyncStream<ConndError>.Continuation

    init(_ reasons: AsyncStream<ConndError>.Continuation) { self.reasons = reasons }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
      guard case .unguarded(let reason)? = event as? ConnectionEvent else { return }
      #expect(context.channel.isActive)
      self.reasons.yield(reason)
    }

    func channelInactive(context: ChannelHandlerContext) { self.reasons.finish() }
  }

  /// Runs `body` with a function that connects to a server, with the reasons that each connection
  /// receives.
  private func connecting(
    to socket: ConndSocket,
    _ body: (() async throws -> (any NIOCore.Channel, AsyncStream<ConndError>)) async throws -> Void
  ) async throws {
    let group = MultiThreadedEventLoopGroup.singleton
    var configuration = ConnectivityGuardHandler.Config.defaults
    configuration.socket = socket
    let server = try await ServerBootstrap(group: group).bind(host: "127.0.0.1", port: 0).get()
    let address = try #require(server.localAddress)
    try await body { [configuration] in
      let (reasons, reason) = AsyncStream.makeStream(of: ConndError.self)
      let channel = try await ClientBootstrap(group: group).channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          let pipeline = channel.pipeline.syncOperations
          try pipeline.addHandler(ConnectivityGuardHandler(config: configuration))
          try pipeline.addHandler(Witness(reason))
        }
      }.connect(to: address).get()
      return (channel, reasons)
    }
    try await server.close()
  }

  @Test("I11 C10 connd rejected three connections in a row → the next one learns that it is alone")
  func distrusted() async throws {
    try await PathConnd.withSocket { socket in
      try await PathConnd.serving(socket) { _ in
        .with {
          $0.invalidation.severity = .destroy
          $0.invalidation.reason = .betterPath
        }
      } _: { _ in
        try await self.connecting(to: socket) { connect in
          for _ in 0..<Breaker.limit {
            guard let (channel, reasons) = try? await connect() else { continue }
            try await channel.closeFuture.get()
            for await reason in reasons { Issue.record("\(reason)") }
          }
          let (channel, reasons) = try await connect()
          #expect(await reasons.first { _ in true }?.code == .breakerOpen)
          #expect(channel.isActive)
          try await channel.close()
        }
      }
    }
  }

  @Test("C10 connd refuses the flow → the connection learns why")
  func refused() async throws {
    try await PathConnd.withSocket { socket in
      try await PathConnd.serving(socket) { _ in
        .with { $0.refused.message = "too many flows" }
      } _: { _ in
        try await self.connecting(to: socket) { connect in
          let (channel, reasons) = try await connect()
          let reason = await reasons.first { _ in true }
          #expect(reason == ConndError(.invalidRequest, "too many flows"))
          try await channel.close()
        }
      }
    }
  }

  @Test("C7 C10 connd is not running → the connection learns that it is not guarded")
  func absent() async throws {
    try await self.connecting(
      to: ConndSocket(path: "/nonexistent/connd.sock", guardsLoopback: true)
    ) { connect in
      let (channel, reasons) = try await connect()
      let reason = await reasons.first { _ in true }
      #expect(reason?.code == .notAvailable)
      #expect(reason?.description.contains("/nonexistent/connd.sock") == true)
      try await channel.close()
    }
  }
}
