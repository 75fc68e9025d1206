import Connectivity
import ConnectivityClient
import ConnectivityTestKit
import GRPCCore
import GRPCNIOTransportHTTP2Posix
import Synchronization
import Testing

/// Calls that wait for connectivity, and what their callers learn.
@Suite("Waiting calls", .timeLimit(.minutes(5)), .namesWaits)
struct WaitingCallTests {
  private static var patient: CallOptions {
    var options = CallOptions.defaults
    options.waitForReady = true
    return options
  }

  @Test("C4 a call waits through failures → its caller receives the path once")
  func throughFailures() async throws {
    let waits = PathWaits()
    let closed = try SilentListener(isListening: false)
    try await withSimulatedNetwork(.none) { network in
      var config = NetworkAwareTransport.Config.defaults
      config.socket = network.socket
      config.backoff.initial = .milliseconds(10)
      config.backoff.max = .milliseconds(10)
      try await withChannel(to: .ipv4(address: "127.0.0.1", port: closed.port), config: config) {
        client, _ in
        let call = Task {
          try await withCallSettings({ $0.onWait = waits.add }) {
            try await client.echo(options: Self.patient)
          }
        }
        var told = waits.stream.makeAsyncIterator()
        await #expect(told.next() == "unsatisfied nothing")
        network.become(.wifi)
        let answer = try await EchoServer.serving(at: closed.address) { _, _ in
          try await call.value
        }
        #expect(answer == "hello")
      }
    }
    #expect(await waits.all() == [])
  }

  @Test("I10 a call within the grace period waits for the path → its caller receives it")
  func suspended() async throws {
    let waits = PathWaits()
    try await playingNetwork {
      $0.calls.onWait = waits.add
    } _: { network, client, _, _ in
      _ = try await client.echo()
      try await network.waitForFlows(atLeast: 1)
      network.become(.wifi.failing(.noCarrier))
      // The channel has yet to receive the change: until a call waits, calls may go out.
      let isBack = Atomic(false)
      async let calls: Void = {
        repeat { _ = try await client.echo() } while !isBack.load(ordering: .relaxed)
      }()
      var told = waits.stream.makeAsyncIterator()
      await #expect(told.next() == "requiresConnection wlan0")
      isBack.store(true, ordering: .relaxed)
      network.become(.wifi)
      try await calls
    }
  }

  @Test("C4 the path of an attempt carries nothing → the waiting callers receive the path")
  func deadAttempt() async throws {
    let waits = PathWaits()
    // Its connection is made, but the server never sends SETTINGS.
    let listener = try SilentListener()
    try await withSimulatedNetwork(.wifi.failing(.noCarrier), clock: StoppedClock()) { network in
      var config = NetworkAwareTransport.Config.defaults
      config.socket = network.socket
      config.calls.onWait = waits.add
      try await withChannel(
        to: .ipv4(address: "127.0.0.1", port: listener.port), config: config
      ) { client, _ in
        let calls = (0..<2).map { _ in Task { try await failure { try await client.echo() } } }
        var told = waits.stream.makeAsyncIterator()
        for _ in calls { await #expect(told.next() == "requiresConnection wlan0") }
        for call in calls { call.cancel() }
      }
    }
  }

  @Test("C1 a call waits only for a connection to be made → its caller receives nothing")
  func connecting() async throws {
    let waits = PathWaits()
    try await playingNetwork {
      $0.calls.onWait = waits.add
    } _: { network, client, transport, _ in
      _ = try await client.echo()
      network.become(.cellular)
      for await state in transport.connectivityStates where state == .transientFailure { break }
      _ = try await client.echo()
    }
    #expect(await waits.all() == [])
  }
}
