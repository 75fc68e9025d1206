import Connectivity
import ConnectivityClient
import ConnectivityTestKit
import GRPCCore
import GRPCNIOTransportHTTP2Posix
import Synchronization
import Testing

/// The channel's owner decides what an invalidation does.
@Suite("Channels with their own invalidation handling", .timeLimit(.minutes(5)), .namesWaits)
struct DrainingChannelTests {
  @Test("a draining channel lets calls in flight continue, and opens a new connection for new ones")
  func drain() async throws {
    let (states, state) = AsyncStream.makeStream(of: ConnectivityState.self)
    try await playingNetwork {
      $0.onInvalidation = .drain
      $0.onConnectivityStateChange = { state.yield($0) }
    } _: { network, client, _, _ in
      let stream = try await Conversation(client)
      let first = await stream.say("one")
      #expect(first == "one")
      // A call waits only briefly for connd's answer.
      try await network.waitForFlows(atLeast: 1)
      network.become(.wired, .wifi)
      for await state in states where state == .idle { break }
      _ = try await client.echo()
      let answer = await stream.say("two")
      #expect(answer == "two")
      try await stream.end()
    }
  }

  @Test("C4 the connection drains before it is made → its waiting calls wait for the next")
  func drainedBefore() async throws {
    let listener = try SilentListener()
    try await withSimulatedNetwork(.wifi, clock: StoppedClock()) { network in
      var config = NetworkAwareTransport.Config.defaults
      config.socket = network.socket
      config.onInvalidation = .drain
      try await withChannel(
        to: .ipv4(address: "127.0.0.1", port: listener.port), config: config
      ) { client, transport in
        let states = transport.connectivityStates
        let call = Task { try await failure { try await client.echo() } }
        try await listener.accepted()
        try await network.waitForFlows(atLeast: 1)
        network.invalidate(.betterPath, .destroy)
        var told: [ConnectivityState] = []
        for await state in states {
          told.append(state)
          if told.count == 4 { break }
        }
        #expect(told == [.idle, .connecting, .transientFailure, .connecting])
        call.cancel()
        let error = try? await call.value
        #expect(error?.code != .unavailable)
      }
    }
  }

  @Test(
    "a drained or kept connection stays guarded: its calls end when its path is lost",
    arguments: [InvalidationHandling.Action.drain, .keep])
  func drainedAndLost(action: InvalidationHandling.Action) async throws {
    try await playingNetwork {
      $0.onInvalidation = .custom { $0.reason == .interfaceLost ? .destroy : action }
    } _: { network, client, _, record in
      let call = try await hangingCall(client, record)
      try await network.waitForFlows(atLeast: 1)
      network.become(.wired, .wifi)
      // It is registered again, bound to its link.
      try await network.waitForFlows(atLeast: 1)
      #expect(network.guardedFlows.map(\.path.interface).contains("wlan0"))
      network.become(.wired)
      let error = try await call.value
      #expect(error?.invalidation?.reason == .interfaceLost)
    }
  }

  @Test("a custom handler is called, and its decision applies")
  func custom() async throws {
    let asked = Mutex<[Invalidation.Severity]>([])
    try await playingNetwork {
      $0.onInvalidation = .custom { invalidation in
        asked.withLock { $0.append(invalidation.severity) }
        return .destroy
      }
    } _: { network, client, _, record in
      let call = try await hangingCall(client, record)
      try await network.waitForFlows(atLeast: 1)
      network.become(.wifi.failing(.noCarrier))
      let error = try await call.value
      #expect(error?.invalidation?.severity == .advise)
      #expect(asked.withLock { $0 } == [.advise])
    }
  }
}
