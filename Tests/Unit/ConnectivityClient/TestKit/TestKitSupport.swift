import Connectivity
import ConnectivityProtobuf
import ConnectivityProtocol
import ConnectivityTestKit
import GRPCCore
import GRPCNIOTransportHTTP2Posix
import Testing

@testable import ConnectivityClient
@testable import ConnectivityMonitor

typealias ConndClient = GRPCClient<HTTP2ClientTransport.Posix>
typealias ConndMethod = Connectivity_V1_Connectivity.Method

/// Runs the body with a client of connd.
func withConnd<Result: Sendable>(
  at socket: ConndSocket, _ body: (ConndClient) async throws -> Result
) async throws -> Result {
  let transport = try HTTP2ClientTransport.Posix(
    target: .unixDomainSocket(path: socket.path, authority: "localhost"),
    transportSecurity: .plaintext)
  return try await withGRPCClient(transport: transport) { try await body($0) }
}

extension GRPCClient {
  /// Calls a method with one request and a stream of responses.
  func serverStreaming<Method: ServiceMethod, Result: Sendable>(
    _ method: Method.Type, _ request: Method.Input,
    _ receive: @Sendable @escaping (StreamingClientResponse<Method.Output>) async throws -> Result
  ) async throws -> Result {
    try await self.serverStreaming(
      request: ClientRequest(message: request), descriptor: method.descriptor,
      serializer: ProtobufSerializer<Method.Input>(),
      deserializer: ProtobufDeserializer<Method.Output>(), options: .defaults, onResponse: receive)
  }
}

/// Runs `Watch`.
///
/// - Returns: The first `count` events, each as a line.
func watched(
  _ network: SimulatedNetwork, _ count: Int, since generation: UInt64? = nil
) async throws -> [String] {
  try await withConnd(at: network.socket) { connd in
    var request = Connectivity_V1_WatchRequest()
    if let generation { request.sinceGeneration = generation }
    return try await connd.serverStreaming(ConndMethod.Watch.self, request) { response in
      var events: [String] = []
      for try await message in response.messages {
        if let event = try WatchEvent(message) { events.append(event.line) }
        if events.count == count { return events }
      }
      throw TestKitError("the stream ended after \(events)")
    }
  }
}

struct TestKitError: Error, CustomStringConvertible {
  var description: String
  init(_ description: String) { self.description = description }
}

extension WatchEvent {
  /// One line: `2 wifi > none`, `3 interfaceLost destroy wlan0`.
  var line: String {
    switch self {
    case .snapshot(let snapshot):
      "\(snapshot.generation) snapshot \(snapshot.status.category.rawValue)"
    case .gap(let snapshot): "\(snapshot.generation) gap \(snapshot.status.category.rawValue)"
    case .change(let change): change.line
    }
  }
}

extension ConnectivityChange {
  var line: String {
    switch self {
    case .transition(let transition):
      "\(self.generation) \(transition.from) > \(transition.to)"
        + (transition.bounced ? " bounced" : "")
    case .path(let change):
      "\(self.generation) path \(change.snapshot.status.interface ?? "-")"
    case .dns(let change): "\(self.generation) dns \(change.cause.change)"
    case .invalidation(let invalidation):
      "\(self.generation) \(invalidation.reason) \(invalidation.severity) "
        + invalidation.scope.line
    }
  }
}

extension Invalidation.Scope {
  fileprivate var line: String {
    let parts = [self.interface, self.family?.rawValue].compactMap { $0 }
    let addresses = self.localAddresses?.map(\.description) ?? []
    return self == .everything ? "everything" : (parts + addresses).joined(separator: " ")
  }
}

extension GuardEvent {
  /// One line: `1 path wlan0`, `1 interfaceLost destroy`.
  var line: String {
    switch self {
    case .flow(let id, _, .path(let path)):
      "\(id) path \(path.status == .satisfied ? path.interface ?? "-" : path.status.rawValue)"
    case .flow(let id, _, .invalidation(let invalidation)):
      "\(id) \(invalidation.reason) \(invalidation.severity)"
    case .flow(let id, _, .betterPathGone): "\(id) better path gone"
    case .flow(let id, _, .refused(let refusal)): "\(id) refused \(refusal.message)"
    case .question(let id): "\(id) question"
    case .absent(.disconnected): "disconnected"
    case .absent(.elsewhere): "elsewhere"
    case .resumed: "resumed"
    }
  }
}

extension FlowGuard {
  func nextLine() async -> String? { await self.next()?.line }

  /// Adds a flow, and returns connd's first report, or `nil` if the address is invalid.
  func add(
    _ remote: String, id: UInt64 = 1, forbidsExpensive: Bool = false,
    forbidsConstrained: Bool = false
  ) async -> String? {
    guard let remote = IPAddress(remote) else { return nil }
    // The simulated machine does not know the real path of a test's connection either.
    self.add(
      .init(
        remote: remote, local: remote.isLoopback ? remote : nil,
        forbidsExpensive: forbidsExpensive, forbidsConstrained: forbidsConstrained),
      id: id)
    return await self.nextLine()
  }
}

extension FlowGuard {
  /// Uses the library's own way to connect.
  convenience init(socket: ConndSocket) {
    self.init(socket: socket.path, through: .shared)
  }
}
