import Connectivity
import ConnectivityClient
import ConnectivityMonitor
import ConnectivityTestKit
import NIOCore
import NIOPosix
import Testing

/// A connection that may not use every network is made only if it may use its path.
@Suite("Access of SwiftNIO channels", .timeLimit(.minutes(5)), .namesWaits)
struct HandlerAccessTests {
  /// Connects to a port with a handler that forbids metered paths.
  private func connect(
    to port: Int, at socket: ConndSocket, whenUnknown: NetworkAccess.WhenUnknown = .allow
  ) async throws -> any Channel {
    var configuration = ConnectivityGuardHandler.Config.defaults
    configuration.socket = socket
    configuration.access = NetworkAccess(
      allowsExpensiveAccess: false, whenUnknown: whenUnknown)
    return try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .channelInitializer { [configuration] channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(
            ConnectivityGuardHandler(config: configuration))
        }
      }
      .connect(host: "127.0.0.1", port: port).get()
  }

  @Test("C10 C8 a connection that may not use the path is refused before anything is sent")
  func refusedBefore() async throws {
    let listener = try SilentListener()
    try await withSimulatedNetwork(.cellular, clock: StoppedClock()) { network in
      let error = await #expect(throws: (any Error).self) {
        _ = try await self.connect(to: listener.port, at: network.socket)
      }
      #expect(error.flatMap { NetworkUnavailableError.Reason(of: $0) } == .expensive)
      #expect(!listener.isConnected)
      network.become(.wifi)
      let channel = try await self.connect(to: listener.port, at: network.socket)
      try await listener.accepted()
      try await channel.close()
    }
  }

  @Test("C10 C7 the network is unknown → the connection is made or refused, as configured")
  func unknown() async throws {
    let listener = try SilentListener()
    let nowhere = ConndSocket(path: "/nonexistent/connd.sock", guardsLoopback: true)
    let error = await #expect(throws: (any Error).self) {
      _ = try await self.connect(to: listener.port, at: nowhere, whenUnknown: .refuse)
    }
    #expect(error.flatMap { NetworkUnavailableError.Reason(of: $0) } == .unknown)
    #expect(!listener.isConnected)
    let channel = try await self.connect(to: listener.port, at: nowhere)
    try await listener.accepted()
    try await channel.close()
  }

  @Test("C10 a connection closed while it waits for connd's answer ends")
  func heldAndClosed() async throws {
    let listener = try SilentListener()
    try await withSimulatedNetwork(.wifi, clock: StoppedClock()) { network in
      network.delaysFlows = true
      let (channels, channel) = AsyncStream.makeStream(of: (any Channel).self)
      var configuration = ConnectivityGuardHandler.Config.defaults
      configuration.socket = network.socket
      configuration.access = .inexpensive
      let connecting = ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
        .channelInitializer { [configuration] made in
          made.eventLoop.makeCompletedFuture {
            try made.pipeline.syncOperations.addHandler(
              ConnectivityGuardHandler(config: configuration))
            channel.yield(made)
          }
        }
        .connect(host: "127.0.0.1", port: listener.port)
      try await network.waitForFlows(atLeast: 1)
      for await made in channels {
        try await made.close()
        break
      }
      await #expect(throws: (any Error).self) { _ = try await connecting.get() }
      #expect(!listener.isConnected)
    }
  }
}
