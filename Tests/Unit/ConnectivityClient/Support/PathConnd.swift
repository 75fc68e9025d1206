import Connectivity
import ConnectivityMonitor
import ConnectivityProtobuf
import ConnectivityProtocol
import ConnectivityTestKit
import GRPCCore
import Glibc
import Synchronization
import TestKit
import Testing

/// A scripted connd that serves `GetStatus`, `Watch`, `WatchPath` and `Guard`.
final class PathConnd: RegistrableRPCService {
  let watches = Calls<Connectivity_V1_WatchRequest, Connectivity_V1_WatchResponse>()
  let pathWatches = Calls<Connectivity_V1_WatchPathRequest, Connectivity_V1_WatchPathResponse>()

  /// The answer to `GetPath` about the way by another link, or `nil` for none.
  let otherWay = Mutex<KernelPath?>(nil)

  /// Its network namespace.
  private let namespace: UInt64

  /// The connections that calls came on.
  let connections = Mutex<Set<ObjectIdentifier>>([])

  /// The answer to each request of `Guard`, or `nil` for none.
  typealias Answer = @Sendable (Connectivity_V1_GuardRequest) -> Connectivity_V1_GuardResponse?
  /// The answers to each request: the first, and what follows it immediately.
  typealias Answers = @Sendable (Connectivity_V1_GuardRequest) -> [Connectivity_V1_GuardResponse]
  private let answers: Answers?

  private init(_ answers: Answers?, in namespace: UInt64) {
    (self.answers, self.namespace) = (answers, namespace)
  }

  /// The calls of one method, in order of arrival.
  final class Calls<Request: Sendable, Response: Sendable>: Sendable {
    private let stream: AsyncStream<Call<Request, Response>>
    private let continuation: AsyncStream<Call<Request, Response>>.Continuation

    init() { (self.stream, self.continuation) = AsyncStream.makeStream() }

    /// Waits for the next call.
    func next(
      sourceLocation: SourceLocation = #_sourceLocation
    ) async -> Call<Request, Response>? {
      await waiting(for: "a call of connd", sourceLocation) {
        await self.stream.first { _ in true }
      }
    }

    fileprivate func serve(_ request: Request, _ writer: RPCWriter<Response>) async throws {
      let call = Call<Request, Response>(request)
      self.continuation.yield(call)
      try await call.run(writer)
    }
  }

  /// One call.
  final class Call<Request: Sendable, Response: Sendable>: Sendable {
    let request: Request
    private let responses: AsyncStream<Response>
    private let continuation: AsyncStream<Response>.Continuation
    private let (ending, ended) = AsyncStream.makeStream(of: Void.self)

    fileprivate init(_ request: Request) {
      self.request = request
      (self.responses, self.continuation) = AsyncStream.makeStream()
    }

    func send(_ response: Response) { self.continuation.yield(response) }

    /// Returns when the client has hung up.
    func hangUp(sourceLocation: SourceLocation = #_sourceLocation) async {
      await waiting(for: "the client to hang up", sourceLocation) {
        for await _ in self.ending {}
      }
    }

    fileprivate func run(_ writer: RPCWriter<Response>) async throws {
      defer { self.ended.finish() }
      try await withRPCCancellationHandler {
        for await response in self.responses { try await writer.write(response) }
      } onCancelRPC: {
        self.continuation.finish()
      }
    }
  }

  func registerMethods(with router: inout RPCRouter<some ServerTransport>) {
    typealias Method = Connectivity_V1_Connectivity.Method
    router.unary(Method.GetStatus.self, self.getStatus)
    router.serverStreaming(Method.Watch.self, self.watch)
    router.unary(Method.GetPath.self, self.getPath)
    router.unary(Method.ReportAttempt.self, self.reportAttempt)
    router.serverStreaming(Method.WatchPath.self, self.watchPath)
    router.bidirectional(Method.Guard.self, self.guard)
  }

  func getStatus(
    request: Connectivity_V1_GetStatusRequest, context: ServerContext
  ) async throws -> Connectivity_V1_Status {
    .with { $0.networkNamespace = self.namespace }
  }

  func watch(
    request: Connectivity_V1_WatchRequest, response: RPCWriter<Connectivity_V1_WatchResponse>,
    context: ServerContext
  ) async throws {
    try await self.watches.serve(request, response)
  }

  func watchPath(
    request: Connectivity_V1_WatchPathRequest,
    response: RPCWriter<Connectivity_V1_WatchPathResponse>, context: ServerContext
  ) async throws {
    try await self.pathWatches.serve(request, response)
  }

  private static let unimplemented = RPCError(code: .unimplemented, message: "this is a stub")

  func reportAttempt(
    request: Connectivity_V1_ReportAttemptRequest, context: ServerContext
  ) async throws -> Connectivity_V1_ReportAttemptResponse {
    Connectivity_V1_ReportAttemptResponse()
  }

  func getPath(
    request: Connectivity_V1_GetPathRequest, context: ServerContext
  ) async throws -> Connectivity_V1_GetPathResponse {
    guard let way = self.otherWay.withLock({ $0 }) else { throw Self.unimplemented }
    return .with {
      $0.networkNamespace = ProcessNamespace.reported
      $0.otherWay.path = Connectivity_V1_Path(way)
    }
  }

  func `guard`(
    request: RPCAsyncSequence<Connectivity_V1_GuardRequest, any Error>,
    response: RPCWriter<Connectivity_V1_GuardResponse>, context: ServerContext
  ) async throws {
    guard let answers = self.answers else { throw Self.unimplemented }
    for try await request in request {
      for var message in answers(request) {
        message.id = request.add.id
        try await response.write(message)
      }
    }
  }
}

extension PathConnd {
  /// Runs `body` while a stub serves at `socket`, and then disconnects every client.
  static func serving<Result: Sendable>(
    _ socket: ConndSocket, answer: Answer? = nil, _ body: (PathConnd) async throws -> Result
  ) async throws -> Result {
    let answers = answer.map { answer -> Answers in
      { request in answer(request).map { [$0] } ?? [] }
    }
    return try await Self.serving(socket, answers: answers, body)
  }

  static func serving<Result: Sendable>(
    _ socket: ConndSocket, in namespace: UInt64 = ProcessNamespace.reported, answers: Answers?,
    _ body: (PathConnd) async throws -> Result
  ) async throws -> Result {
    let connd = PathConnd(answers, in: namespace)
    // A client that only checks whether connd listens makes no call.
    return try await Listener.serving(
      [connd], at: Listener.socket(socket.path),
      onCall: { connection in connd.connections.withLock { _ = $0.insert(connection) } }
    ) { _ in
      try await body(connd)
    }
  }

  /// Runs `body` with a socket without a listener, in a temporary directory.
  static func withSocket<Result: Sendable>(
    _ body: (_ socket: ConndSocket) async throws -> Result
  ) async throws -> Result {
    let directory = try TemporaryDirectory()
    defer { withExtendedLifetime(directory) {} }
    return try await body(
      ConndSocket(path: "\(directory.path)/connd.sock", guardsLoopback: true))
  }
}
