import Connectivity
import ConnectivityClient
import ConnectivityProtobuf
import ConnectivityProtocol
import ConnectivityTestKit
import GRPCCore
import GRPCNIOTransportHTTP2Posix
import GRPCProtobuf
import SwiftProtobuf
import Synchronization
import Testing

/// A call that reaches a certain state and stays in it.
struct EndlessCall: Sendable {
  typealias Client = GRPCClient<NetworkAwareTransport>

  enum State: CaseIterable, Sendable {
    /// The resolver does not answer.
    case resolving
    /// connd does not name the network.
    case askingConnd
    /// The server does not send SETTINGS.
    case connecting
    /// The server is silent by both ways (W2).
    case tryingOtherWay
    /// No attempt may start yet.
    case backingOff
    /// The connection has no path for the moment (I10).
    case held
    /// The server does not accept the call.
    case unaccepted
    /// The server has accepted the call, and does not answer.
    case unanswered
    /// Both sides of a stream wait.
    case streaming
  }

  private let port: Int
  /// Resolved instead of the port's address.
  private var name: SilentName?
  private var config = NetworkAwareTransport.Config.defaults
  /// Makes the call.
  private(set) var call: @Sendable (Client) async throws -> Void = { client in
    _ = try await client.echo()
  }
  /// Returns when the call is in the state.
  private(set) var reached: @Sendable () async throws -> Void = {}

  private init(to port: Int, of socket: ConndSocket = "/nonexistent/connd.sock") {
    self.port = port
    self.config.socket = socket
  }

  func transport() throws -> NetworkAwareTransport {
    guard let name = self.name else {
      return try NetworkAwareTransport(
        target: .ipv4(address: "127.0.0.1", port: self.port), transportSecurity: .plaintext,
        config: self.config)
    }
    var registry = NameResolverRegistry()
    registry.registerFactory(name)
    return try NetworkAwareTransport(
      target: name, transportSecurity: .plaintext, config: self.config, resolverRegistry: registry)
  }

  /// Runs an application that makes the call with the client.
  func run(_ body: @Sendable (Client) async throws -> Void) async throws {
    try await withGRPCClient(transport: try self.transport()) { try await body($0) }
  }

  /// Runs `body` with what such a call needs.
  static func reaching(
    _ state: State, _ body: @Sendable (EndlessCall) async throws -> Void
  ) async throws {
    switch state {
    case .resolving: try await self.resolving(body)
    case .askingConnd: try await self.askingConnd(body)
    case .connecting: try await self.connecting(body)
    case .tryingOtherWay: try await self.tryingOtherWay(body)
    case .backingOff: try await self.backingOff(body)
    case .held: try await self.held(body)
    case .unaccepted: try await self.served(EchoServer.hush, body)
    case .unanswered: try await self.served(EchoServer.hang, body)
    case .streaming: try await self.streaming(body)
    }
  }

  private typealias Body = @Sendable (EndlessCall) async throws -> Void

  private static func resolving(_ body: Body) async throws {
    let name = SilentName()
    var call = EndlessCall(to: 0)
    call.name = name
    call.reached = { _ = await name.lookups.next() }
    try await body(call)
  }

  private static func askingConnd(_ body: Body) async throws {
    let listener = try SilentListener()
    try await withSimulatedNetwork(.wifi) { network in
      network.delaysFlows = true
      var call = EndlessCall(to: listener.port, of: network.socket)
      // With a restriction, the call waits longer for connd.
      call.config.access = NetworkAccess(allowsExpensiveAccess: false)
      call.reached = { try await network.waitForFlows(atLeast: 1) }
      try await body(call)
    }
  }

  private static func connecting(_ body: Body) async throws {
    let listener = try SilentListener()
    var call = EndlessCall(to: listener.port)
    call.reached = { try await listener.accepted() }
    try await body(call)
  }

  private static func tryingOtherWay(_ body: Body) async throws {
    let listener = try SilentListener()
    var limping = PathSample.wifi
    limping.quality = .minimal
    var loopback = PathSample.cellular
    loopback.chain = [KernelPath.Link(index: 1, name: "lo")]
    try await PathConnd.withSocket { socket in
      try await PathConnd.serving(socket) { [limping] request in
        .with { $0.path = Connectivity_V1_Path(limping) }
      } _: { [loopback] connd in
        connd.otherWay.withLock { $0 = loopback }
        let log = LogRecorder()
        var call = EndlessCall(to: listener.port, of: socket)
        call.config.backgroundActivityLogger = log.logger
        call.config.assist = .allowed
        call.reached = { try await log.wait { $0.contains("trying another one") } }
        try await body(call)
      }
    }
  }

  private static func backingOff(_ body: Body) async throws {
    let nobody = try SilentListener(isListening: false)
    let waits = Happenings()
    var call = EndlessCall(to: nobody.port)
    call.config.backoff.initial = .seconds(3_600)
    call.config.backoff.max = .seconds(3_600)
    call.config.calls.onWait = { _ in waits.say("waits") }
    call.call = { client in _ = try await client.echo(options: .waiting) }
    call.reached = { _ = await waits.next() }
    try await body(call)
  }

  private static func held(_ body: Body) async throws {
    let waits = Happenings()
    try await withSimulatedNetwork(.wifi, clock: StoppedClock()) { network in
      try await EchoServer.serving { port, _ in
        var call = EndlessCall(to: port, of: network.socket)
        call.config.calls.onWait = { _ in waits.say("waits") }
        // The channel has yet to receive the change: until a call waits, calls may go out.
        call.call = { client in while true { _ = try await client.echo() } }
        call.reached = {
          try await network.waitForFlows(atLeast: 1)
          network.become(.wifi.failing(.noCarrier))
          _ = await waits.next()
        }
        try await body(call)
      }
    }
  }

  private static func served(_ method: MethodDescriptor, _ body: Body) async throws {
    try await EchoServer.serving { port, record in
      let before = record.calls.count
      var call = EndlessCall(to: port)
      call.call = { client in _ = try await client.echo(method) }
      call.reached = { try await record.reach(before + 1) }
      try await body(call)
    }
  }

  private static func streaming(_ body: Body) async throws {
    let answers = Happenings()
    try await EchoServer.serving { port, _ in
      var call = EndlessCall(to: port)
      call.call = { client in
        try await client.bidirectionalStreaming(
          request: StreamingClientRequest { writer in
            try await writer.write(Client.Echo("hello"))
            await cancellation()
          },
          descriptor: EchoServer.update, serializer: ProtobufSerializer<Client.Echo>(),
          deserializer: ProtobufDeserializer<Client.Echo>(), options: .defaults
        ) { response in
          for try await message in response.messages { answers.say(message.value) }
        }
      }
      call.reached = { _ = await answers.next() }
      try await body(call)
    }
  }
}

/// A name that no resolver ever answers.
private final class SilentName: ResolvableTarget, NameResolverFactory, Sendable {
  typealias Target = SilentName
  let lookups = Happenings()

  func resolver(for target: SilentName) -> NameResolver {
    NameResolver(names: RPCAsyncSequence(wrapping: Names(name: self)), updateMode: .pull)
  }

  private struct Names: AsyncSequence, AsyncIteratorProtocol, Sendable {
    let name: SilentName

    func makeAsyncIterator() -> Names { self }

    func next() async throws -> NameResolutionResult? {
      self.name.lookups.say("asked")
      await cancellation()
      throw CancellationError()
    }

    func next(isolation: isolated (any Actor)?) async throws -> NameResolutionResult? {
      try await self.next()
    }
  }
}
