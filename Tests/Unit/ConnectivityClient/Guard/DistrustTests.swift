import Connectivity
import ConnectivityProtobuf
import ConnectivityProtocol
import GRPCCore
import GRPCNIOTransportHTTP2Posix
import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import ConnectivityClient
@testable import ConnectivityMonitor

/// Channels with a connd whose reports are wrong, or concern another network.
@Suite("A connd that cannot be trusted", .timeLimit(.minutes(5)), .namesWaits)
struct DistrustTests {
  /// A `destroy` for a path over a link of this medium.
  private static func destroy(
    _ reason: Connectivity_V1_InvalidationReason, _ medium: Connectivity_V1_Medium = .wifi
  ) -> Connectivity_V1_GuardResponse {
    .with {
      $0.invalidation.reason = reason
      $0.invalidation.severity = .destroy
      $0.invalidation.cause.trigger = .registration
      $0.invalidation.cause.change = "diedBefore"
      $0.invalidation.path = Self.path(medium)
    }
  }

  private static func path(_ medium: Connectivity_V1_Medium) -> Connectivity_V1_Path {
    .with {
      $0.status = .satisfied
      $0.chain = [.with { $0.name = "wlan0" }]
      $0.interface = "wlan0"
      $0.source = "192.0.2.7"
      $0.gateway = "192.0.2.1"
      $0.medium = medium
    }
  }

  private static func warnings(_ log: LogRecorder) -> [String] {
    log.lines.filter { $0.hasPrefix("warning connd wrongly rejects new connections") }
  }

  private func config(_ socket: ConndSocket, _ log: LogRecorder) -> NetworkAwareTransport.Config {
    .defaults {
      $0.socket = socket
      $0.backoff.initial = .milliseconds(1)
      $0.backoff.max = .milliseconds(1)
      $0.backgroundActivityLogger = log.logger
    }
  }

  @Test("I11 three refutations in a row → the channel continues unguarded, and logs why")
  func refuted() async throws {
    let log = LogRecorder()
    let asked = Atomic(0)
    try await PathConnd.withSocket { socket in
      try await PathConnd.serving(socket) { request in
        if case .add = request.request { asked.add(1, ordering: .relaxed) }
        return Self.destroy(.betterPath)
      } _: { _ in
        try await EchoServer.serving { port, record in
          try await withChannel(
            to: .ipv4(address: "127.0.0.1", port: port), config: self.config(socket, log)
          ) { client, _ in
            // Three, unless connd's answer comes later than the call.
            while Self.warnings(log).isEmpty {
              let error = try await failure { try await client.echo() }
              #expect(error == nil || error?.invalidation?.reason == .betterPath)
            }
            let before = record.calls.count
            for _ in 0..<3 {
              let answer = try await client.echo()
              #expect(answer == "hello")
            }
            #expect(record.calls.count == before + 3)
          }
          let warnings = Self.warnings(log)
          #expect(warnings.count == 1)
          for words in [
            "remote=127.0.0.1", "remote_port=\(port)", "local_port=0", "protocol=6", "mark=0",
            "reason=betterPath", "cause=registration diedBefore",
            "path=satisfied wlan0 from 192.0.2.7 via 192.0.2.1",
          ] {
            #expect(warnings.first?.contains(words) == true, "\(words): \(warnings)")
          }
        }
      }
    }
    // Neither for the fourth connection, nor repeatedly for the path to the server.
    #expect(asked.load(ordering: .relaxed) <= 2 * Breaker.limit)
  }

  @Test("I11 C8 an unguarded channel still uses no forbidden network")
  func access() async throws {
    let log = LogRecorder()
    try await PathConnd.withSocket { socket in
      try await PathConnd.serving(socket) { _ in
        Self.destroy(.betterPath, .cellular)
      } _: { _ in
        try await EchoServer.serving { port, record in
          var config = self.config(socket, log)
          config.access.prohibitedMedia = [.cellular]
          try await withChannel(to: .ipv4(address: "127.0.0.1", port: port), config: config) {
            client, _ in
            for _ in 0..<6 {
              let error = try await failure { try await client.echo() }
              #expect(error?.networkUnavailableReason == .cellular)
            }
          }
          #expect(record.calls == [])
        }
      }
    }
    #expect(Self.warnings(log).count == 1)
  }

  @Test("I8 I11 an invalidation for cost is not a refutation")
  func policy() async throws {
    let log = LogRecorder()
    try await PathConnd.withSocket { socket in
      try await PathConnd.serving(socket) { _ in
        Self.destroy(.policy)
      } _: { _ in
        try await EchoServer.serving { port, _ in
          try await withChannel(
            to: .ipv4(address: "127.0.0.1", port: port), config: self.config(socket, log)
          ) { client, _ in
            for _ in 0..<6 {
              let error = try await failure { try await client.echo() }
              #expect(error == nil || error?.invalidation?.reason == .policy)
            }
          }
        }
      }
    }
    #expect(Self.warnings(log).isEmpty)
  }

  @Test("C7 a connd in another network namespace is ignored: calls work, whatever it reports")
  func elsewhere() async throws {
    let own = try #require(ProcessNamespace.own)
    let log = LogRecorder()
    try await PathConnd.withSocket { socket in
      try await PathConnd.serving(socket) { _ in
        var answer = Self.destroy(.sourceAddressLost, .cellular)
        answer.networkNamespace = own + 1
        return answer
      } _: { _ in
        try await EchoServer.serving { port, record in
          var config = self.config(socket, log)
          config.access.prohibitedMedia = [.cellular]
          for _ in 0..<2 {
            try await withChannel(to: .ipv4(address: "127.0.0.1", port: port), config: config) {
              client, _ in
              for _ in 0..<6 {
                let answer = try await client.echo()
                #expect(answer == "hello")
              }
            }
          }
          #expect(record.calls.count == 12)
        }
      }
    }
    let words = log.lines.filter { $0.contains("\(own + 1)") }
    // Each of the two channels has its own hub, unless the second begins before the first is gone.
    #expect((1...2).contains(words.count))
    #expect(words.allSatisfy { $0.hasPrefix("warning") && $0.contains("\(own)") }, "\(words)")
  }

  @Test("I0 C10 the handler names the channel's protocol and port", arguments: [6, 17] as [UInt32])
  func protocols(number: UInt32) async throws {
    let (flows, told) = AsyncStream.makeStream(of: Connectivity_V1_Flow.self)
    try await PathConnd.withSocket { socket in
      try await PathConnd.serving(socket) { request in
        told.yield(request.add)
        return .with { $0.path = Self.path(.wifi) }
      } _: { _ in
        var configuration = ConnectivityGuardHandler.Config.defaults
        configuration.socket = socket
        let initialize: @Sendable (any NIOCore.Channel) -> EventLoopFuture<Void> = {
          [configuration] channel in
          channel.eventLoop.makeCompletedFuture {
            let pipeline = channel.pipeline.syncOperations
            try pipeline.addHandler(ConnectivityGuardHandler(config: configuration))
          }
        }
        let group = MultiThreadedEventLoopGroup.singleton
        let server = try await ServerBootstrap(group: group).bind(host: "127.0.0.1", port: 0).get()
        let port = try #require(server.localAddress?.port)
        let client =
          number == 17
          ? try await DatagramBootstrap(group: group).channelInitializer(initialize)
            .connect(host: "127.0.0.1", port: port).get()
          : try await ClientBootstrap(group: group).channelInitializer(initialize)
            .connect(host: "127.0.0.1", port: port).get()
        let flow = await flows.first { _ in true }
        #expect(flow?.protocol == number)
        #expect(flow?.remotePort == UInt32(port))
        try await client.close()
        try await server.close()
      }
    }
  }

  @Test("I11 C10 a destination whose connections are refuted three times in a row is left alone")
  func handlers() async throws {
    let group = MultiThreadedEventLoopGroup.singleton
    try await PathConnd.withSocket { socket in
      try await PathConnd.serving(socket) { _ in
        Self.destroy(.betterPath)
      } _: { _ in
        var configuration = ConnectivityGuardHandler.Config.defaults
        configuration.socket = socket
        let server = try await ServerBootstrap(group: group).bind(host: "127.0.0.1", port: 0).get()
        let address = try #require(server.localAddress)
        let connect: @Sendable () async throws -> any NIOCore.Channel = { [configuration] in
          try await ClientBootstrap(group: group).channelInitializer { channel in
            channel.eventLoop.makeCompletedFuture {
              let pipeline = channel.pipeline.syncOperations
              try pipeline.addHandler(ConnectivityGuardHandler(config: configuration))
            }
          }.connect(to: address).get()
        }
        for _ in 0..<Breaker.limit {
          // Before or after the connection is made.
          try? await connect().closeFuture.get()
        }
        let flow = FlowGuard.Flow(
          remote: try #require(IPAddress("127.0.0.1")),
          transport: Transport(6, remotePort: UInt16(try #require(address.port))))
        #expect(!DestinationBreaker(flow, socket: socket.path).allowsGuarding)
        let channel = try await connect()
        #expect(channel.isActive)
        try await channel.close()
        try await server.close()
      }
    }
  }

  /// connd sees no path for a flow, and destroys it at the end of the grace period.
  private static let doubts: PathConnd.Answers = { request in
    guard case .add(let flow) = request.request else { return [] }
    var path = Self.path(.wifi)
    path.status = .unsatisfied
    guard flow.hasLocal else { return [.with { $0.path = path }] }
    let severities: [Connectivity_V1_InvalidationSeverity] = [.advise, .destroy]
    return severities.map { severity in
      var message = Self.destroy(.interfaceLost)
      message.invalidation.severity = severity
      message.invalidation.path = path
      return message
    }
  }

  /// All reports about a new connection.
  private static func words(
    of connection: LoopbackSocket, _ socket: ConndSocket, shutsDown: Bool
  ) async throws -> [String] {
    let watch = try SocketGuard(
      descriptor: connection.descriptor,
      config: .defaults {
        $0.socket = socket
        ($0.isNew, $0.shutsDown) = (true, shutsDown)
      })
    var words: [String] = []
    for await event in watch.events {
      switch event {
      case .invalidated(let invalidation):
        words.append("\(invalidation.severity.rawValue) \(invalidation.reason.rawValue)")
      case .unguarded(let why): words.append(why.description)
      case .pathChanged: words.append("path")
      case .viable, .notViable, .betterPathAvailable, .betterPathGone, .asked: break
      }
    }
    return words
  }

  @Test("I11 C10 connd sees no path for a connection and destroys it a second later → a refutation")
  func doubted() async throws {
    try await PathConnd.withSocket { socket in
      try await PathConnd.serving(socket, answers: Self.doubts) { _ in
        let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
          .bind(host: "127.0.0.1", port: 0).get()
        let port = try #require(server.localAddress?.port)
        for number in 1...Breaker.limit + 1 {
          let connection = try LoopbackSocket(port: port)
          let words = try await Self.words(of: connection, socket, shutsDown: true)
          #expect(
            words
              == (number > Breaker.limit
                ? ["connd wrongly rejected new connections"]
                : ["advise interfaceLost", "destroy interfaceLost"]))
          #expect(connection.hasEnded == (number <= Breaker.limit))
        }
        try await server.close()
      }
    }
  }

  /// connd sees no path for a flow, then a better one; the flow continues, and loses its link.
  private static let secondThoughts: PathConnd.Answers = { request in
    guard case .add(let flow) = request.request else { return [] }
    if flow.hasInterface {
      return [.with { $0.path = Self.path(.wifi) }, Self.destroy(.interfaceLost)]
    }
    guard flow.hasLocal else { return [.with { $0.path = Self.path(.wired) }] }
    var advice = Self.destroy(.interfaceLost)
    advice.invalidation.severity = .advise
    advice.invalidation.path.status = .unsatisfied
    return [advice, Self.destroy(.betterPath, .wired)]
  }

  @Test(
    "I11 C10 connd sees no path, and then a better one → not a refutation, and the connection stays guarded"
  )
  func betterThanNone() async throws {
    try await PathConnd.withSocket { socket in
      try await PathConnd.serving(socket, answers: Self.secondThoughts) { _ in
        let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
          .bind(host: "127.0.0.1", port: 0).get()
        let port = try #require(server.localAddress?.port)
        for _ in 1...Breaker.limit + 1 {
          let connection = try LoopbackSocket(port: port)
          let words = try await Self.words(of: connection, socket, shutsDown: false)
          #expect(
            words
              == ["advise interfaceLost", "destroy betterPath", "path", "destroy interfaceLost"])
        }
        try await server.close()
      }
    }
  }

  @Test("I11 the outcome of a new connection without a path is reported as such, once")
  func outcome() async throws {
    try await PathConnd.withSocket { socket in
      try await PathConnd.serving(socket, answers: Self.doubts) { _ in
        let remote = try #require(IPAddress("203.0.113.9"))
        let (phases, phase) = AsyncStream.makeStream(of: ConnectionGuard.EventPhase.self)
        let flow = FlowGuard.Flow(remote: remote, transport: Transport(6, remotePort: 443))
        let connection = ConnectionGuard(flow, hub: GuardHub(socket: socket.path)) {
          phase.yield($0.phase)
        }
        var heard = phases.makeAsyncIterator()
        #expect(await heard.next() == .answer)
        connection.connected(local: try #require(IPAddress("192.0.2.7")), port: 40_000)
        #expect(await heard.next() == .verdict)
        #expect(await heard.next() == .outcome)
        // As a connection that continues despite that, it gets no report from connd.
        connection.keep(on: "wlan0")
        #expect(await heard.next() == .again)
        #expect(await heard.next() == .change)
        connection.end()
      }
    }
  }

  @Test("I0 an established connection is registered with its own address and ports")
  func ports() async throws {
    let (flows, told) = AsyncStream.makeStream(of: Connectivity_V1_Flow.self)
    try await PathConnd.withSocket { socket in
      try await PathConnd.serving(socket) { request in
        guard case .add(let flow) = request.request else { return nil }
        told.yield(flow)
        if flow.hasLocal { return Self.destroy(.betterPath) }
        return .with { $0.path = Self.path(.wifi) }
      } _: { _ in
        let remote = try #require(IPAddress("203.0.113.9"))
        let local = try #require(IPAddress("192.0.2.7"))
        let (phases, phase) = AsyncStream.makeStream(of: ConnectionGuard.EventPhase.self)
        let registered = Mutex<FlowGuard.Flow?>(nil)
        let flow = FlowGuard.Flow(remote: remote, transport: Transport(6, remotePort: 443))
        let connection = ConnectionGuard(flow, hub: GuardHub(socket: socket.path)) {
          // An observer of the report looks at the registration.
          registered.withLock { [flow = $0.flow] in $0 = flow }
          phase.yield($0.phase)
        }
        var (seen, heard) = (flows.makeAsyncIterator(), phases.makeAsyncIterator())
        let first = try #require(await seen.next())
        #expect(!first.hasLocal && !first.hasLocalPort)
        #expect(first.remotePort == 443 && first.protocol == 6)
        #expect(await heard.next() == .answer)
        // connd already assumed the address; the port is new.
        connection.connected(local: local, port: 40_000)
        let second = try #require(await seen.next())
        #expect(second.local == "192.0.2.7" && second.localPort == 40_000)
        #expect(second.remotePort == 443 && second.protocol == 6)
        #expect(await heard.next() == .verdict)
        #expect(registered.withLock { $0?.transport?.localPort } == 40_000)
        connection.end()
      }
    }
  }
}
