import Connectivity
import ConnectivityClient
import ConnectivityProtobuf
import ConnectivityProtocol
import ConnectivityTestKit
import Glibc
import NIOCore
import NIOEmbedded
import NIOPosix
import Synchronization
import Testing

/// Any TCP connection of SwiftNIO, guarded by one handler.
@Suite("SwiftNIO channels", .timeLimit(.minutes(5)), .namesWaits)
struct GuardHandlerTests {
  /// The events at the end of a pipeline, in words.
  private final class Witness: ChannelInboundHandler, Sendable {
    typealias InboundIn = ByteBuffer
    private let words: AsyncStream<String>.Continuation

    init(_ words: AsyncStream<String>.Continuation) { self.words = words }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      self.words.yield("read \(String(buffer: self.unwrapInboundIn(data)))")
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
      switch event as? ConnectionEvent {
      case .viable: self.words.yield("viable true")
      case .notViable: self.words.yield("viable false")
      case .betterPathAvailable: self.words.yield("better path")
      case .betterPathGone: self.words.yield("no better path")
      case .pathChanged(let path): self.words.yield("path \(path.interface ?? "none")")
      case .invalidated(let invalidation):
        self.words.yield("\(invalidation.severity.rawValue) \(invalidation.reason.rawValue)")
      case .asked, .unguarded, nil: break
      }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
      let reason = (error as? InvalidationError)?.reason.rawValue
      self.words.yield("error \(reason ?? "\(error)")")
    }

    func channelInactive(context: ChannelHandlerContext) {
      self.words.yield("closed")
      self.words.finish()
    }
  }

  /// Runs `body` with a connection to an echo server, on a network that begins as Wi-Fi, with a
  /// stopped clock.
  private func connected(
    _ change: (inout ConnectivityGuardHandler.Config) -> Void = { _ in },
    _ body:
      (SimulatedNetwork, any Channel, inout AsyncStream<String>.AsyncIterator) async throws -> Void
  ) async throws {
    var configuration = ConnectivityGuardHandler.Config.defaults
    try await withSimulatedNetwork(.wifi, clock: StoppedClock()) { network in
      configuration.socket = network.socket
      change(&configuration)
      let group = MultiThreadedEventLoopGroup.singleton
      let server = try await ServerBootstrap(group: group)
        .childChannelInitializer { $0.pipeline.addHandler(Echo()) }
        .bind(host: "127.0.0.1", port: 0).get()
      let (words, continuation) = AsyncStream.makeStream(of: String.self)
      let client = try await ClientBootstrap(group: group)
        .channelInitializer { [configuration] channel in
          channel.eventLoop.makeCompletedFuture {
            let pipeline = channel.pipeline.syncOperations
            try pipeline.addHandler(ConnectivityGuardHandler(config: configuration))
            try pipeline.addHandler(Witness(continuation))
          }
        }
        .connect(to: try #require(server.localAddress)).get()
      var told = words.makeAsyncIterator()
      try await body(network, client, &told)
      try? await client.close()
      try await server.close()
    }
  }

  private final class Echo: ChannelInboundHandler, Sendable {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      context.writeAndFlush(data, promise: nil)
    }
  }

  @Test("C10 a connection's network is gone → it is closed immediately, with the reason")
  func destroyed() async throws {
    try await self.connected { network, channel, told in
      await #expect(told.next() == "path wlan0")
      try await channel.writeAndFlush(ByteBuffer(string: "hello"))
      await #expect(told.next() == "read hello")
      network.become(.cellular)
      let invalidation = await told.next()
      #expect(invalidation?.hasPrefix("destroy ") == true)
      let reason = invalidation?.dropFirst("destroy ".count) ?? ""
      await #expect(told.next() == "viable false")
      await #expect(told.next() == "error \(reason)")
      await #expect(told.next() == "closed")
    }
  }

  @Test("C10 within the grace period a connection is not viable, and then it is again")
  func grace() async throws {
    try await self.connected { network, channel, told in
      await #expect(told.next() == "path wlan0")
      network.become(.wifi.failing(.noCarrier))
      var words: [String] = []
      while let word = await told.next() {
        words.append(word)
        if word == "viable false" { network.become(.wifi) }
        if word == "viable true" { break }
      }
      #expect(words.contains("viable false"))
      #expect(!words.contains("closed"))
      try await channel.writeAndFlush(ByteBuffer(string: "still there"))
      while let word = await told.next() {
        words.append(word)
        if word.hasPrefix("read") { break }
      }
      #expect(words.last == "read still there")
    }
  }

  @Test("C10 with draining, a better path is reported and the connection stays")
  func drained() async throws {
    try await self.connected {
      $0.onInvalidation = .drain
    } _: { network, channel, told in
      await #expect(told.next() == "path wlan0")
      try await network.waitForFlows(atLeast: 1)
      network.invalidate(.betterPath, .destroy)
      var words: [String] = []
      while words.last != "better path", let word = await told.next() { words.append(word) }
      #expect(words.last == "better path")
      try await channel.writeAndFlush(ByteBuffer(string: "still there"))
      while words.last != "read still there", let word = await told.next() { words.append(word) }
      #expect(words.last == "read still there")
    }
  }

  /// connd's reports for a flow that has its own address, and one that continues.
  private static func told(
    _ severity: Connectivity_V1_InvalidationSeverity,
    _ reason: Connectivity_V1_InvalidationReason, _ path: Connectivity_V1_Path
  ) -> Connectivity_V1_GuardResponse {
    .with {
      $0.invalidation.severity = severity
      $0.invalidation.reason = reason
      $0.invalidation.path = path
    }
  }

  private static func path(_ interface: String) -> Connectivity_V1_Path {
    .with {
      $0.status = .satisfied
      $0.chain = [.with { $0.name = interface }]
      $0.interface = interface
    }
  }

  @Test("I11 C10 connd first sees no path for a new connection → it stays guarded when it drains")
  func doubtedAndDrained() async throws {
    let asked = Atomic(0)
    try await PathConnd.withSocket { socket in
      try await PathConnd.serving(socket) { request -> [Connectivity_V1_GuardResponse] in
        guard case .add(let flow) = request.request else { return [] }
        if flow.hasInterface {
          return [
            .with { $0.path = Self.path("wlan0") },
            Self.told(.destroy, .interfaceLost, Self.path("eth0")),
          ]
        }
        guard flow.hasLocal else {
          // First for the connection to be made, later for the path of new ones.
          let isFirst = asked.add(1, ordering: .relaxed).oldValue == 0
          return [.with { $0.path = Self.path(isFirst ? "wlan0" : "eth0") }]
        }
        return [
          Self.told(.advise, .interfaceLost, .with { $0.status = .unsatisfied }),
          Self.told(.destroy, .betterPath, Self.path("eth0")),
        ]
      } _: { _ in
        var configuration = ConnectivityGuardHandler.Config.defaults
        (configuration.socket, configuration.onInvalidation) = (socket, .drain)
        // With a restriction, the handler waits longer for connd's first answer, which names the
        // link to keep. On a busy machine it may be late.
        configuration.access = NetworkAccess(allowsExpensiveAccess: false)
        let (words, continuation) = AsyncStream.makeStream(of: String.self)
        // A connection whose own address is not on this machine's loopback.
        let channel = NIOAsyncTestingChannel()
        try await channel.testingEventLoop.executeInContext { [configuration] in
          let pipeline = channel.pipeline.syncOperations
          try pipeline.addHandler(ConnectivityGuardHandler(config: configuration))
          try pipeline.addHandler(Witness(continuation))
        }
        channel.localAddress = try SocketAddress(ipAddress: "192.0.2.7", port: 40_000)
        try await channel.connect(to: try SocketAddress(ipAddress: "203.0.113.9", port: 443)).get()
        var told: [String] = []
        for await word in words { told.append(word) }
        #expect(told.contains("destroy betterPath"))
        #expect(told.suffix(2) == ["error interfaceLost", "closed"], "\(told)")
      }
    }
  }

  @Test("C10 with draining, the end of the better path is reported, and so is the next one")
  func noBetterPath() async throws {
    try await self.connected {
      $0.onInvalidation = .drain
    } _: { network, channel, told in
      await #expect(told.next() == "path wlan0")
      var words: [String] = []
      func awaitWord(_ wanted: String) async {
        words = []
        while words.last != wanted, let word = await told.next() { words.append(word) }
      }
      for _ in 0..<2 {
        network.become(.wired, .wifi)
        await awaitWord("better path")
        network.become(.wifi)
        await awaitWord("no better path")
        #expect(words == ["no better path"])
      }
      try await channel.writeAndFlush(ByteBuffer(string: "still there"))
      await awaitWord("read still there")
    }
  }

  @Test("C10 C8 a connection that forbids expensive paths is closed when its path becomes one")
  func policy() async throws {
    try await self.connected {
      $0.access = NetworkAccess(allowsExpensiveAccess: false)
    } _: { network, _, told in
      await #expect(told.next() == "path wlan0")
      network.become(.wifi.expensive())
      var words: [String] = []
      while let word = await told.next() { words.append(word) }
      #expect(words.contains("error policy"))
      #expect(words.last == "closed")
    }
  }

  @Test("C10 C8 a connection that forbids constrained paths is closed when its path becomes one")
  func constrained() async throws {
    try await self.connected {
      $0.access = NetworkAccess(allowsConstrainedAccess: false)
    } _: { network, _, told in
      await #expect(told.next() == "path wlan0")
      network.become(.wifi.constrained())
      var words: [String] = []
      while let word = await told.next() { words.append(word) }
      #expect(words.contains("error policy") && words.last == "closed")
    }
  }

  @Test("C10 a socket is bound to a link and has a mark → connd judges its path by them")
  func bound() async throws {
    let (flows, flow) = AsyncStream.makeStream(of: Connectivity_V1_Flow.self)
    let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .bind(host: "127.0.0.1", port: 0).get()
    // Only a privileged process may set a mark.
    let mark: UInt32 = geteuid() == 0 ? 7 : 0
    try await PathConnd.withSocket { socket in
      try await PathConnd.serving(socket) { request -> [Connectivity_V1_GuardResponse] in
        guard case .add(let added) = request.request else { return [] }
        flow.yield(added)
        return [.with { $0.path = Self.path("lo") }]
      } _: { _ in
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
          .channelOption(.socketOption(.init(rawValue: 62)), value: .init(if_nametoindex("lo")))
          .channelOption(.socketOption(.init(rawValue: 36)), value: .init(mark))
          .channelInitializer { channel in
            channel.eventLoop.makeCompletedFuture {
              try channel.pipeline.syncOperations.addHandler(
                ConnectivityGuardHandler(config: .defaults { $0.socket = socket }))
            }
          }
          .connect(to: try #require(server.localAddress)).get()
        let asked = try #require(await flows.first { _ in true })
        #expect(asked.interface == "lo")
        #expect(asked.mark == mark)
        try await channel.close()
      }
    }
    try await server.close()
  }

  @Test("C10 C7 without connd nothing happens")
  func absent() async throws {
    try await self.connected {
      $0.socket = "/nonexistent/connd.sock"
    } _: { network, channel, told in
      _ = network
      try await channel.writeAndFlush(ByteBuffer(string: "hello"))
      await #expect(told.next() == "read hello")
    }
  }

  @Test(
    "C10 a removed handler guards no longer, and one added late guards from then on"
  )
  func removed() async throws {
    try await self.connected { network, channel, told in
      await #expect(told.next() == "path wlan0")
      try await network.waitForFlows(atLeast: 1)
      try await channel.eventLoop.submit {
        let pipeline = channel.pipeline.syncOperations
        let handler = try pipeline.handler(type: ConnectivityGuardHandler.self)
        return pipeline.removeHandler(handler)
      }.get().get()
      network.become(.cellular)
      try await channel.writeAndFlush(ByteBuffer(string: "hello"))
      await #expect(told.next() == "read hello")
      var configuration = ConnectivityGuardHandler.Config.defaults
      configuration.socket = network.socket
      try await channel.eventLoop.submit { [configuration] in
        try channel.pipeline.syncOperations.addHandler(
          ConnectivityGuardHandler(config: configuration), position: .first)
      }.get()
      await #expect(told.next() == "path wwan0")
      network.become(.wired)
      var words: [String] = []
      while let word = await told.next() { words.append(word) }
      #expect(words.last == "closed")
    }
  }
}
