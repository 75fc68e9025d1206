import Connectivity
import ConnectivityMonitor
import ConnectivityProtobuf
import ConnectivityProtocol
import GRPCCore
import Glibc
import Synchronization
import TestKit

@testable import ConnctlCommands

/// A scripted connd.
final class StubConnd: RegistrableRPCService {
  typealias Watcher = RPCWriter<Connectivity_V1_WatchResponse>

  typealias FlowRequests = RPCAsyncSequence<Connectivity_V1_GuardRequest, any Error>
  typealias FlowWriter = RPCWriter<Connectivity_V1_GuardResponse>

  private let snapshot: ConnectivitySnapshot
  private let onWatch: @Sendable (Connectivity_V1_WatchRequest, Watcher) async throws -> Void
  private let onGuard: @Sendable (FlowRequests, FlowWriter) async throws -> Void
  /// The error of every call.
  private let error: RPCError?
  /// Whether it is an older connd without the newest calls.
  private let isOld: Bool
  /// The network namespace that it names; 0 if unknown.
  private let namespace: UInt64

  init(
    _ snapshot: ConnectivitySnapshot = .sample, error: RPCError? = nil, isOld: Bool = false,
    namespace: UInt64 = 0,
    onWatch: @escaping @Sendable (Connectivity_V1_WatchRequest, Watcher) async throws -> Void = {
      _, _ in
    },
    onGuard: @escaping @Sendable (FlowRequests, FlowWriter) async throws -> Void = { _, _ in }
  ) {
    self.snapshot = snapshot
    self.error = error
    self.isOld = isOld
    self.namespace = namespace
    self.onWatch = onWatch
    self.onGuard = onGuard
  }

  func registerMethods(with router: inout RPCRouter<some ServerTransport>) {
    typealias Method = Connectivity_V1_Connectivity.Method
    router.unary(Method.GetStatus.self, self.getStatus)
    router.serverStreaming(Method.Watch.self, self.watch)
    router.unary(Method.GetPath.self, self.getPath)
    router.bidirectional(Method.Guard.self, self.guard)
  }

  func getStatus(
    request: Connectivity_V1_GetStatusRequest, context: ServerContext
  ) async throws -> Connectivity_V1_Status {
    if let error { throw error }
    return Connectivity_V1_Status(self.snapshot, networkNamespace: self.namespace)
  }

  func watch(
    request: Connectivity_V1_WatchRequest, response: Watcher, context: ServerContext
  ) async throws {
    if let error { throw error }
    try await Self.untilCancelled(context) { try await self.onWatch(request, response) }
  }

  /// 192.0.2.0/24 is reachable over Wi-Fi, and nothing else is.
  func getPath(
    request: Connectivity_V1_GetPathRequest, context: ServerContext
  ) async throws -> Connectivity_V1_GetPathResponse {
    if let error { throw error }
    let isNear = request.destination.hasPrefix("192.0.2.")
    var response = Connectivity_V1_GetPathResponse()
    response.destination = request.destination
    response.networkNamespace = self.namespace
    response.path = Connectivity_V1_Path(isNear ? .wlan : .unsatisfied(.noRoute))
    return response
  }

  func `guard`(
    request: FlowRequests, response: FlowWriter, context: ServerContext
  ) async throws {
    if let error { throw error }
    try await Self.untilCancelled(context) { try await self.onGuard(request, response) }
  }

  /// Runs the body, and cancels its task when the client has gone.
  private static func untilCancelled(
    _ context: ServerContext, _ body: @escaping @Sendable () async throws -> Void
  ) async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { try await context.cancellation.cancelled }
      group.addTask { try await body() }
      defer { group.cancelAll() }
      try await group.next()
    }
  }

  /// The received overrides.
  let said = Mutex<[Connectivity_V1_SetCostRequest]>([])

  /// The stub's services, each as connd has it.
  private var services: [any RegistrableRPCService] {
    [self, StubCosts(connd: self), StubDiagnostics(isOld: self.isOld)]
  }

  func fail() throws {
    if let error { throw error }
  }
}

extension Connectivity_V1_GuardResponse {
  /// connd's report about the flow `id`.
  static func flow(_ id: UInt64 = 1, generation: UInt64, _ event: FlowEvent) -> Self {
    Self(id, event, generation: generation)
  }
}

extension StubConnd {
  /// Runs `body` while the stub serves at `socket`, and then disconnects every client.
  func serving<Result: Sendable>(
    _ socket: String, _ body: @Sendable () async throws -> Result
  ) async throws -> Result {
    try await StubServer.serving(self.services, at: socket, body)
  }
}

/// Runs `body` with a temporary directory.
func withDirectory<Result: Sendable>(
  _ body: (_ path: String) async throws -> Result
) async throws -> Result {
  let directory = try TemporaryDirectory()
  defer { withExtendedLifetime(directory) {} }
  return try await body(directory.path)
}

/// A gate that opens once.
final class Gate: Sendable {
  private let stream: AsyncStream<Void>
  private let continuation: AsyncStream<Void>.Continuation

  init() { (self.stream, self.continuation) = AsyncStream.makeStream() }

  func open() { self.continuation.finish() }
  func pass() async { for await _ in self.stream {} }
}
