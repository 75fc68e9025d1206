import Connectivity
@testable import ConnectivityClient
@testable import ConnectivityMonitor
import GRPCCore
import GRPCNIOTransportHTTP2Posix
import SwiftProtobuf
import Synchronization
import Testing

@Suite("Call settings")
struct CallSettingsTests {
  @Test("Nothing is set by default")
  func defaults() {
    let settings = CallSettings.current
    #expect(settings.logger == nil)
    #expect(settings.requestID == nil)
    #expect(settings.requestIDHeader == nil)
    #expect(settings.access == .unrestricted)
    #expect(settings.timeLimit == nil)
  }

  @Test("Settings apply within the closure, and a nested closure adds to them")
  func nested() async throws {
    await withCallSettings {
      $0.requestIDHeader = "x-request-id"
      $0.timeLimit = .timeout(.seconds(5))
    } operation: {
      await withCallSettings {
        $0.timeLimit = .unlimited
        $0.access.allowsExpensiveAccess = false
      } operation: {
        #expect(CallSettings.current.requestIDHeader == "x-request-id")
        #expect(CallSettings.current.timeLimit == .unlimited)
        #expect(!CallSettings.current.access.allowsExpensiveAccess)
      }
      #expect(CallSettings.current.timeLimit == .timeout(.seconds(5)))
      #expect(CallSettings.current.access == .unrestricted)
    }
    #expect(CallSettings.current.requestIDHeader == nil)
  }

  @Test("Settings reach the tasks that the closure starts, except detached ones")
  func tasks() async {
    await withCallSettings {
      $0.requestIDHeader = "x-request-id"
    } operation: {
      async let child = CallSettings.current.requestIDHeader
      #expect(await child == "x-request-id")
      #expect(await Task { CallSettings.current.requestIDHeader }.value == "x-request-id")
      #expect(await Task.detached { CallSettings.current.requestIDHeader }.value == nil)
    }
  }

  @Test("The closure's error is rethrown, and the settings are gone")
  func throwing() async {
    await expectCode(.notFound) {
      try await withCallSettings {
        $0.requestIDHeader = "x-request-id"
      } operation: {
        throw RPCError(code: .notFound, message: "")
      }
    }
    #expect(CallSettings.current.requestIDHeader == nil)
  }

  @Test(
    "C8 settings reach the transport through gRPC, with and without a deadline",
    arguments: [nil, 60])
  func transport(timeout: Int?) async throws {
    try await withEchoServer { port in
      let transport = Recorder(
        base: try HTTP2ClientTransport.Posix(
          target: .ipv4(address: "127.0.0.1", port: port), transportSecurity: .plaintext))
      try await withGRPCClient(transport: transport) { client in
        var options = CallOptions.defaults
        options.timeout = timeout.map { .seconds($0) }
        try await withCallSettings {
          $0.access = .inexpensive
        } operation: {
          _ = try await AnyServiceClient(client).call(
            .echo("Get"), Words("hello"), options: options, returning: Words.self)
        }
        #expect(transport.seen.withLock { $0 } == [.inexpensive])
      }
    }
  }
}

@Suite("Service config: methods")
struct MethodConfigsTests {
  @Test("the narrowest config applies: the method's, then its service's, then the default")
  func narrowest() {
    func config(_ service: String, _ method: String, seconds: Int) -> MethodConfig {
      MethodConfig(names: [.init(service: service, method: method)], timeout: .seconds(seconds))
    }
    let configs = MethodConfigs(
      ServiceConfig(methodConfig: [
        config("", "", seconds: 1), config("a.A", "", seconds: 2), config("a.A", "Get", seconds: 3),
      ]))
    func timeout(_ service: String, _ method: String) -> Duration? {
      configs[MethodDescriptor(fullyQualifiedService: service, method: method)]?.timeout
    }
    #expect(timeout("a.A", "Get") == .seconds(3))
    #expect(timeout("a.A", "List") == .seconds(2))
    #expect(timeout("b.B", "Get") == .seconds(1))
    let none = MethodConfigs(ServiceConfig())
    #expect(none[MethodDescriptor(fullyQualifiedService: "a.A", method: "Get")] == nil)
    #expect(none.retryThrottle == nil)
  }

  @Test("the retry throttle is read")
  func throttle() throws {
    let service = ServiceConfig(retryThrottling: try .init(maxTokens: 10, tokenRatio: 0.5))
    #expect(MethodConfigs(service).retryThrottle?.maxTokens == 10)
  }
}

@Suite("Time limits")
struct TimeLimitTests {
  @Test(
    "The rest of a limit is never negative",
    arguments: [
      (CallSettings.TimeLimit.timeout(.seconds(5)), .seconds(5)), (.timeout(.seconds(-1)), .zero),
      (.unlimited, nil),
    ] as [(CallSettings.TimeLimit, Duration?)])
  func timeouts(limit: CallSettings.TimeLimit, expected: Duration?) {
    #expect(limit.remaining(.now) == expected)
  }

  @Test("A deadline comes nearer and passes")
  func deadlines() {
    let now = ContinuousClock.now
    let limit = CallSettings.TimeLimit.deadline(now + .seconds(2))
    #expect(limit.remaining(now) == .seconds(2))
    #expect(limit.remaining(now + .seconds(1)) == .seconds(1))
    #expect(limit.remaining(now + .seconds(3)) == .zero)
  }
}

/// Records the settings that its calls see.
private final class Recorder: ClientTransport {
  typealias Bytes = HTTP2ClientTransport.Posix.Bytes

  let base: HTTP2ClientTransport.Posix
  let seen = Mutex<[NetworkAccess]>([])

  init(base: HTTP2ClientTransport.Posix) { self.base = base }

  var retryThrottle: RetryThrottle? { self.base.retryThrottle }
  func connect() async throws { try await self.base.connect() }
  func beginGracefulShutdown() { self.base.beginGracefulShutdown() }
  func config(forMethod descriptor: MethodDescriptor) -> MethodConfig? {
    self.base.config(forMethod: descriptor)
  }

  func withStream<T: Sendable>(
    descriptor: MethodDescriptor, options: CallOptions,
    _ closure: (RPCStream<Inbound, Outbound>, ClientContext) async throws -> T
  ) async throws -> T {
    self.seen.withLock { $0.append(CallSettings.current.access) }
    return try await self.base.withStream(descriptor: descriptor, options: options, closure)
  }
}
