import Connectivity
import ConnectivityClient
import ConnectivityTestKit
import GRPCCore
import GRPCNIOTransportHTTP2Posix
import NIOCore
import Synchronization
import Testing

/// A channel on a simulated network.
@Suite("Guarded channels", .timeLimit(.minutes(5)), .namesWaits)
struct GuardedChannelTests {
  @Test(
    "C2 C3 calls in flight end with UNAVAILABLE and the reason, and the next one goes out immediately"
  )
  func destroyed() async throws {
    try await playingNetwork { network, client, transport, record in
      let call = try await hangingCall(client, record)
      try await network.waitForFlows(atLeast: 1)
      network.become(.cellular)
      let error = try #require(try await call.value)
      #expect(error.code == .unavailable)
      #expect(error.invalidation?.severity == .destroy)
      #expect(error.invalidation?.reason == .interfaceLost)
      #expect(error.message.contains("interface lost"))
      let answer = try await client.echo()
      #expect(answer == "hello")
      #expect(transport.connectivityState == .ready)
      try await network.waitForFlows(atLeast: 1)
      #expect(network.guardedFlows.map(\.path.medium) == [.cellular])
    }
  }

  /// Delays each close like a TLS handler that waits for the peer's close_notify.
  private final class SlowCloser: ChannelOutboundHandler {
    typealias OutboundIn = NIOAny
    private let delays: Counter

    init(_ delays: Counter) { self.delays = delays }

    func close(
      context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?
    ) {
      let (bound, delays) = (NIOLoopBound(context, eventLoop: context.eventLoop), self.delays)
      context.eventLoop.scheduleTask(in: .seconds(5)) {
        delays.increase()
        bound.value.close(mode: mode, promise: promise)
      }
    }
  }

  @Test("C2 C3 an application's handler at the pipeline's beginning delays no end")
  func handlerAtBeginning() async throws {
    let delays = Counter()
    try await playingNetwork {
      $0.channelDebuggingCallbacks.onCreateTCPConnection = { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(SlowCloser(delays), position: .first)
        }
      }
    } _: { network, client, _, record in
      let call = try await hangingCall(client, record)
      try await network.waitForFlows(atLeast: 1)
      network.become(.cellular)
      let error = try #require(try await call.value)
      #expect(error.invalidation != nil)
      #expect(delays.count == 0)
    }
  }

  @Test(
    "C2 all calls of a channel end, streaming ones included, and those of an unguarded channel do not"
  )
  func scope() async throws {
    try await playingNetwork { network, client, _, record in
      var calls: [Task<RPCError?, any Error>] = []
      for _ in 0..<20 { calls.append(try await hangingCall(client, record)) }
      try await network.waitForFlows(atLeast: 1)
      let spared = try await EchoServer.serving { [calls] port, other in
        // Loopback is not guarded, as outside of tests.
        var config = NetworkAwareTransport.Config.defaults
        config.socket = ConndSocket(path: network.socket.path)
        return try await withChannel(to: .ipv4(address: "127.0.0.1", port: port), config: config) {
          client, transport in
          let call = try await hangingCall(client, other)
          network.become(.cellular)
          for call in calls {
            let error = try await call.value
            #expect(error?.invalidation != nil)
          }
          let answer = try await client.echo()
          #expect(answer == "hello")
          #expect(other.calls == ["Hang", "Get"])
          call.cancel()
          return transport.connectivityState
        }
      }
      #expect(spared == .ready)
    }
  }

  @Test("I10 a call within the grace period waits for the path")
  func suspended() async throws {
    let log = LogRecorder()
    try await playingNetwork {
      $0.calls.logger = log.logger
    } _: { network, client, _, record in
      _ = try await client.echo()
      try await network.waitForFlows(atLeast: 1)
      try await log.wait { $0.contains("waits for a connection") }
      network.become(.wifi.failing(.noCarrier))
      // The channel has yet to receive the change: until a call waits, calls may go out.
      let isBack = Atomic(false)
      async let calls: Void = {
        repeat { _ = try await client.echo() } while !isBack.load(ordering: .relaxed)
      }()
      try await log.wait(times: 2) { $0.contains("waits for a connection") }
      record.add("Late", Metadata())
      isBack.store(true, ordering: .relaxed)
      network.become(.wifi)
      try await calls
      #expect(record.calls.suffix(2) == ["Late", "Get"])
    }
  }

  @Test("I10 within the grace period nothing ends")
  func grace() async throws {
    try await playingNetwork { network, client, _, record in
      let call = try await hangingCall(client, record)
      try await network.waitForFlows(atLeast: 1)
      network.become(.wifi.failing(.noCarrier))
      network.become(.wifi)
      let answer = try await client.echo()
      #expect(answer == "hello")
      #expect(record.calls == ["Hang", "Get"])
      #expect(!call.isCancelled)
      call.cancel()
      let error = try await call.value
      #expect(error?.invalidation == nil)
    }
  }

  @Test("C6 a call with a retry policy is repeated on the new network, others are not")
  func repeated() async throws {
    try await playingNetwork { network, client, _, record in
      var options = CallOptions.defaults
      options.executionPolicy = .retry(
        RetryPolicy(
          maxAttempts: 2, initialBackoff: .milliseconds(1), maxBackoff: .seconds(1),
          backoffMultiplier: 2, retryableStatusCodes: [.unavailable]))
      let call = Task { [options] in
        try await failure { try await client.echo(EchoServer.hush, options: options) }
      }
      try await record.reach(1)
      try await network.waitForFlows(atLeast: 1)
      network.become(.cellular)
      try await record.reach(2)
      // It may be repeated once.
      try await network.waitForFlows(atLeast: 1)
      network.become(.wired)
      let error = try await call.value
      #expect(error?.invalidation != nil)
      #expect(record.calls == ["Hush", "Hush"])
    }
  }

  @Test("C6 a call without a retry policy is made once, whatever happens to the network")
  func notRepeated() async throws {
    try await playingNetwork { network, client, _, record in
      let call = Task { try await failure { try await client.echo(EchoServer.hush) } }
      try await record.reach(1)
      try await network.waitForFlows(atLeast: 1)
      network.become(.cellular)
      let error = try await call.value
      #expect(error?.invalidation != nil)
      _ = try await client.echo()
      #expect(record.calls == ["Hush", "Get"])
    }
  }

  @Test("C9 a call's own logger is used instead of the channel's")
  func ownLogger() async throws {
    let (channel, own) = (LogRecorder(), LogRecorder())
    try await playingNetwork {
      $0.calls = CallSettings(logger: channel.logger)
    } _: { _, client, _, _ in
      try await withCallSettings {
        $0.logger = own.logger
      } operation: {
        _ = try await client.echo()
      }
    }
    #expect(own.lines.contains { $0.contains("call ended with ok") })
    #expect(channel.lines.isEmpty)
  }

  @Test("C3 a channel whose network is gone is in transient failure until the next call reconnects")
  func states() async throws {
    let (observed, observe) = AsyncStream.makeStream(of: ConnectivityState.self)
    try await playingNetwork {
      $0.onConnectivityStateChange = { observe.yield($0) }
    } _: { network, client, transport, record in
      let states = transport.connectivityStates
      let call = try await hangingCall(client, record)
      try await network.waitForFlows(atLeast: 1)
      network.become(.cellular)
      let error = try await call.value
      #expect(error?.invalidation != nil)
      for await state in observed where state == .transientFailure { break }
      #expect(transport.connectivityState == .transientFailure)
      // Another observer begins with the present state.
      var late = transport.connectivityStates.makeAsyncIterator()
      await #expect(late.next() == .transientFailure)
      _ = try await client.echo()
      transport.beginGracefulShutdown()
      var told: [ConnectivityState] = []
      for await state in states { told.append(state) }
      #expect(
        told == [
          .idle, .connecting, .ready, .transientFailure, .connecting, .ready, .shutdown,
        ])
      await #expect(late.next() == .connecting)
    }
  }

  @Test("C4 a path that becomes satisfied cuts the backoff short")
  func backoff() async throws {
    var config = NetworkAwareTransport.Config.defaults
    // The test never waits for that.
    config.backoff.initial = .seconds(3600)
    config.backoff.max = .seconds(3600)
    try await withSimulatedNetwork(.none) { [config] network in
      var config = config
      config.socket = network.socket
      let closed = try SilentListener(isListening: false)
      try await withChannel(to: .ipv4(address: "127.0.0.1", port: closed.port), config: config) {
        client, transport in
        let error = try await failure { try await client.echo() }
        #expect(error?.code == .unavailable)
        #expect(transport.connectivityState == .transientFailure)
        try await EchoServer.serving(at: closed.address) { _, _ in
          let call = Task { try await client.echo() }
          // The attempt waited only briefly for connd's answer.
          try await network.waitForFlows(atLeast: 1)
          network.become(.wifi)
          let answer = try await call.value
          #expect(answer == "hello")
        }
      }
    }
  }

  @Test("C9 calls and connections are logged together, with the request's ID")
  func logs() async throws {
    let background = LogRecorder()
    let calls = LogRecorder()
    try await playingNetwork {
      $0.backgroundActivityLogger = background.logger
      $0.calls = CallSettings(
        logger: calls.logger, requestID: .userDefined("request-7"), requestIDHeader: "x-request-id")
    } _: { network, client, _, record in
      // The connection waits for connd's answer for a limited time.
      repeat { _ = try await client.echo() } while !calls.lines.contains { $0.contains("wlan0") }
      let metadata = try #require(record.metadata.first)
      #expect(Array(metadata[stringValues: "x-request-id"]) == ["request-7"])
      let call = try await hangingCall(client, record)
      try await network.waitForFlows(atLeast: 1)
      network.become(.cellular)
      _ = try await call.value
    }
    #expect(calls.lines.contains { $0.contains("grpc_request_id=request-7") && $0.contains("ok") })
    // One connection, with its own name.
    let names = Set(calls.lines.flatMap { $0.split(separator: " ") }).filter {
      $0.hasPrefix("grpc_connection_id=")
    }
    #expect(names.count == 1)
    #expect(names.allSatisfy { $0.contains(/=[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/) })
    #expect(calls.lines.contains { $0.contains("grpc_connection_id=") && $0.contains("wlan0") })
    #expect(calls.lines.contains { $0.contains("invalidation=") })
    let states = background.lines.filter { $0.contains("connectivity state changed") }
    #expect(
      states.map { $0.split(separator: "=").last }
        == ["connecting", "ready", "transientFailure", "shutdown"])
    // The log line about the connection's end has the same name.
    #expect(
      background.lines.contains { line in
        line.contains("no longer viable") && names.contains { line.contains($0) }
      })
    #expect(background.lines.contains { $0.contains("no longer viable") })
  }

  @Test("nothing is left behind: no flow, no stream to connd")
  func leftovers() async throws {
    try await withSimulatedNetwork(.wifi) { network in
      var config = NetworkAwareTransport.Config.defaults
      config.socket = network.socket
      try await EchoServer.serving { [config] port, _ in
        for _ in 0..<20 {
          try await withChannel(to: .ipv4(address: "127.0.0.1", port: port), config: config) {
            client, _ in
            _ = try await client.echo()
            try await network.waitForFlows(atLeast: 1)
          }
        }
      }
      try await network.waitForNoStreams()
      #expect(network.guardedFlows.isEmpty)
    }
  }

  @Test("many channels of a process share one stream to connd")
  func shared() async throws {
    try await playingNetwork { network, client, _, record in
      _ = try await client.echo()
      try await EchoServer.serving { port, _ in
        var config = NetworkAwareTransport.Config.defaults
        config.socket = network.socket
        try await withThrowingTaskGroup(of: Void.self) { [config] group in
          for _ in 0..<50 {
            group.addTask {
              try await withChannel(
                to: .ipv4(address: "127.0.0.1", port: port), config: config
              ) { client, _ in
                _ = try await client.echo(EchoServer.hang)
              }
            }
          }
          try await network.waitForFlows(atLeast: 51)
          #expect(network.openStreams == 1)
          group.cancelAll()
        }
      }
    }
  }
}
