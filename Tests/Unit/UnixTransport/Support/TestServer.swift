import CLinux
import GRPCCore
import GRPCNIOTransportHTTP2Posix
import Glibc
import LinuxSupport
import NIOPosix
import Synchronization
import TestKit
import Testing

@testable import UnixTransport

extension MethodDescriptor {
  private static func test(_ method: String) -> Self {
    MethodDescriptor(fullyQualifiedService: "t.T", method: method)
  }

  /// Answers with the caller.
  static let who = test("Who")
  /// Answers each message with itself.
  static let echo = test("Echo")
  static let fail = test("Fail")
  /// Fails with its request as the message.
  static let quote = test("Quote")
  /// Fails after a message.
  static let failLate = test("FailLate")
  /// Sends a message, and waits for its cancellation.
  static let wait = test("Wait")
  /// Sends a message, and ignores its cancellation.
  static let ignore = test("Ignore")
  /// Sends two hundred messages as fast as the client reads.
  static let pour = test("Pour")
  /// Uses a source: as many messages as the request says, and an error.
  static let count = test("Count")
  /// Uses a source: one message, and then nothing.
  static let silence = test("Silence")
}

/// A server on its own socket, and grpc-swift's client of it.
enum TestServer {
  /// Ends the handlers that ignore their cancellation.
  static let ignored = Gate()

  /// Uses grpc-swift's own client.
  static func run(
    _ body:
      @escaping @Sendable (
        TestClient<HTTP2ClientTransport.Posix>, TestAdmission
      ) async throws -> Void
  ) async throws {
    try await Self.run({ $0 }) { path, admission, _, _ in
      let transport = try HTTP2ClientTransport.Posix(
        target: .unixDomainSocket(path: path, authority: "localhost"),
        transportSecurity: .plaintext)
      try await TestClient.run(transport) { try await body($0, admission) }
    }
  }

  /// Uses ``UnixClientTransport``.
  static func runOwnClient(
    _ body:
      @escaping @Sendable (TestClient<UnixClientTransport>, TestAdmission) async throws -> Void
  ) async throws {
    try await Self.run(connectedSocket) { socket, admission, reactor, _ in
      let transport = UnixClientTransport(connected: socket, on: reactor)
      try await TestClient.run(transport) { try await body($0, admission) }
    }
  }

  /// - Parameter connect: creates the body's connection from the socket's path.
  static func run<Connection: Sendable>(
    _ connect: @escaping @Sendable (String) throws -> Connection,
    _ body:
      @escaping @Sendable (
        Connection, TestAdmission, Reactor, UnixServerTransport
      ) async throws -> Void
  ) async throws {
    let directory = try TemporaryDirectory()
    let path = "\(directory.path)/s.sock"
    let listener = try listen(path)
    let admission = TestAdmission()
    try await ReactorTests.run { reactor in
      let transport = UnixServerTransport(
        listeningOn: listener,
        streaming: [
          MethodDescriptor.count.fullyQualifiedMethod: Self.count,
          MethodDescriptor.silence.fullyQualifiedMethod: { _, _, _ in List([[7]], end: nil) },
        ],
        settings: .init(streamsPerConnection: 200, messageSize: 300_000), admission: admission,
        on: reactor)
      let server = GRPCServer(transport: transport, services: [TestService()])
      try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask { try await server.serve() }
        try await body(try connect(path), admission, reactor, transport)
        server.beginGracefulShutdown()
        try await group.waitForAll()
      }
    }
    #expect(admission.connections == 0)
    #expect(admission.streams == 0)
    #expect(admission.memory == 0)
    withExtendedLifetime(directory) {}
  }

  /// Pauses after each message until it is resumed.
  @Sendable private static func count(
    _ request: [UInt8], _ peer: PeerCredentials, _ stream: ServerStream
  ) throws(RPCError) -> any MessageSource {
    guard let count = request.first else {
      throw RPCError(code: .invalidArgument, message: "a byte, please")
    }
    return Countdown(count, stream)
  }

  private static func listen(_ path: String) throws -> CInt {
    let socket = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    guard withUnixAddress(path, { bind(socket, $0, $1) }) == 0, Glibc.listen(socket, 100) == 0
    else {
      throw SystemError()
    }
    return socket
  }
}

/// Lets waiting tasks continue once it is open.
final class Gate: Sendable {
  private let state = Mutex<(isOpen: Bool, waiters: [CheckedContinuation<Void, Never>])>(
    (false, []))

  func wait() async {
    await withCheckedContinuation { waiter in
      let isOpen = self.state.withLock { state in
        if !state.isOpen { state.waiters.append(waiter) }
        return state.isOpen
      }
      if isOpen { waiter.resume() }
    }
  }

  func open() {
    let waiters = self.state.withLock { state in
      defer { state = (true, []) }
      return state.waiters
    }
    for waiter in waiters { waiter.resume() }
  }
}

private final class Countdown: MessageSource, @unchecked Sendable {
  private let count: UInt8
  private let stream: ServerStream
  private var sent: UInt8 = 0
  private var isSilent = false

  init(_ count: UInt8, _ stream: ServerStream) {
    (self.count, self.stream) = (count, stream)
  }

  func next() -> NextMessage {
    if self.isSilent {
      self.isSilent = false
      let reactor = self.stream.connection?.server.reactor
      reactor?.execute { self.stream.resume() }
      return .later
    }
    guard self.sent < self.count else { return .end(Status(code: .unavailable, message: "over")) }
    defer { (self.sent, self.isSilent) = (self.sent + 1, true) }
    return .message([UInt8](self.sent..<self.count))
  }

  func close() {}
}

private struct TestService: RegistrableRPCService {
  func registerMethods<Transport: ServerTransport>(with router: inout RPCRouter<Transport>) {
    typealias Body =
      @Sendable (
        RPCAsyncSequence<[UInt8], any Error>, ServerContext, RPCWriter<[UInt8]>
      ) async throws -> Void
    func register(_ method: MethodDescriptor, _ body: @escaping Body) {
      router.registerHandler(forMethod: method, deserializer: Raw(), serializer: Raw()) {
        request, context in
        StreamingServerResponse { writer in
          try await body(request.messages, context, writer)
          return [:]
        }
      }
    }
    register(.who) { requests, context, writer in
      for try await _ in requests {}
      let peer = try #require(context.peer)
      try await writer.write(Array("\(peer.uid) \(peer.pid)".utf8))
    }
    register(.echo) { requests, _, writer in
      for try await request in requests { try await writer.write(request) }
    }
    register(.quote) { requests, _, _ in
      for try await request in requests {
        throw RPCError(code: .invalidArgument, message: String(decoding: request, as: UTF8.self))
      }
    }
    register(.failLate) { _, _, writer in
      try await writer.write([1])
      throw RPCError(code: .dataLoss, message: "after all")
    }
    register(.wait) { _, context, writer in
      try await writer.write([1])
      try await context.cancellation.cancelled
    }
    register(.ignore) { _, _, writer in
      try await writer.write([1])
      await TestServer.ignored.wait()
    }
    register(.pour) { _, _, writer in
      for _ in 0..<200 { try await writer.write([UInt8](repeating: 1, count: 10_000)) }
    }
    router.registerHandler(forMethod: .fail, deserializer: Raw(), serializer: Raw()) { _, _ in
      throw RPCError(code: .aborted, message: "100 % für Ümläute\n")
    }
  }
}

/// Passes bytes unchanged.
private struct Raw: MessageSerializer, MessageDeserializer {
  func serialize<Bytes: GRPCContiguousBytes>(_ message: [UInt8]) throws -> Bytes { Bytes(message) }
  func deserialize<Bytes: GRPCContiguousBytes>(_ bytes: Bytes) throws -> [UInt8] {
    bytes.withUnsafeBytes { Array($0) }
  }
}

/// A socket connected to the path.
@Sendable func connectedSocket(_ path: String) throws -> CInt {
  let socket = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
  guard withUnixAddress(path, { connect(socket, $0, $1) }) == 0 else { throw SystemError() }
  _ = fcntl(socket, F_SETFL, O_NONBLOCK)
  return socket
}

struct TestClient<Transport: ClientTransport>: Sendable {
  private let client: GRPCClient<Transport>

  static func run(
    _ transport: Transport, _ body: (TestClient) async throws -> Void
  ) async throws {
    try await withGRPCClient(transport: transport) { try await body(TestClient(client: $0)) }
  }

  private static var options: CallOptions {
    var options = CallOptions.defaults
    options.maxRequestMessageBytes = .max
    options.maxResponseMessageBytes = .max
    return options
  }

  func unary(_ method: MethodDescriptor, _ request: [UInt8]) async throws -> [UInt8] {
    try await self.client.unary(
      request: ClientRequest(message: request), descriptor: method, serializer: Raw(),
      deserializer: Raw(), options: Self.options
    ) { try $0.message }
  }

  func echo(_ messages: [[UInt8]]) async throws -> [[UInt8]] {
    try await self.client.bidirectionalStreaming(
      request: StreamingClientRequest { try await $0.write(contentsOf: messages) },
      descriptor: .echo, serializer: Raw(), deserializer: Raw(), options: Self.options
    ) { response in
      var echoed: [[UInt8]] = []
      for try await message in response.messages { echoed.append(message) }
      return echoed
    }
  }

  func stream(
    _ method: MethodDescriptor, _ request: [UInt8],
    _ take: @escaping @Sendable ([UInt8]) -> Void
  ) async throws {
    try await self.client.serverStreaming(
      request: ClientRequest(message: request), descriptor: method, serializer: Raw(),
      deserializer: Raw(), options: Self.options
    ) { response in
      for try await message in response.messages { take(message) }
    }
  }
}

/// Admits every client unless told otherwise, and counts.
final class TestAdmission: Admission {
  private struct State {
    var connections = 0
    var streams = 0
    var refusedMessages = 0
    var failures: [UInt32] = []
    var refusesStreams = false
    var memory = 0
    var mostMemory = Int.max
    var waiters: [CheckedContinuation<Void, Never>] = []
  }

  private let state = Mutex(State())

  var connections: Int { self.state.withLock { $0.connections } }
  var streams: Int { self.state.withLock { $0.streams } }
  /// The number of bytes that calls hold.
  var memory: Int { self.state.withLock { $0.memory } }
  var mostMemory: Int {
    get { self.state.withLock { $0.mostMemory } }
    set { self.state.withLock { $0.mostMemory = newValue } }
  }
  var refusedMessages: Int { self.state.withLock { $0.refusedMessages } }
  /// The errors with which connections ended.
  var failures: [UInt32] { self.state.withLock { $0.failures } }
  var refusesStreams: Bool {
    get { self.state.withLock { $0.refusesStreams } }
    set { self.state.withLock { $0.refusesStreams = newValue } }
  }

  func untilNoStreams() async {
    await withCheckedContinuation { waiter in
      self.state.withLock { state in
        if state.streams == 0 { waiter.resume() } else { state.waiters.append(waiter) }
      }
    }
  }

  func admit(
    _ amount: Int, of resource: LimitedResource, by peer: PeerCredentials
  ) throws(Refusal) {
    try self.state.withLock { (state) throws(Refusal) in
      switch resource {
      case .connections: state.connections += amount
      case .streams:
        if state.refusesStreams { throw Refusal("no more") }
        state.streams += amount
      case .pendingMemory:
        guard state.memory + amount <= state.mostMemory else { throw Refusal("no memory") }
        state.memory += amount
      case .questions: break
      }
    }
  }

  func release(_ amount: Int, of resource: LimitedResource, by peer: PeerCredentials) {
    self.state.withLock { state in
      switch resource {
      case .connections: state.connections -= amount
      case .streams:
        state.streams -= amount
        guard state.streams == 0 else { return }
        for waiter in state.waiters { waiter.resume() }
        state.waiters = []
      case .pendingMemory: state.memory -= amount
      case .questions: break
      }
    }
  }

  func refuseMessage(of peer: PeerCredentials, maxLength: Int) -> Refusal {
    self.state.withLock { $0.refusedMessages += 1 }
    return Refusal("too long")
  }

  func account(ofUID uid: UInt32) -> Account { Account(ofUID: uid) }

  func connectionFailed(of peer: PeerCredentials, _ error: UInt32) {
    self.state.withLock { $0.failures.append(error) }
  }

  func acceptFailed(_ error: SystemError) {}
  func accepted() {}
}
