import ConnectivityProtocol
import ConnectivitySession
import Glibc
import SwiftProtobuf
import UnixTransport

/// Connects to connd on the thread that also prints, so that a message wakes only one thread.
struct ReactorConnector: Connector {
  let reactor: Reactor

  var executor: any TaskExecutor { self.reactor }

  func withClient<Result: Sendable>(
    of socket: String,
    _ body: (any Connectivity_V1_Connectivity.ClientProtocol) async throws -> Result
  ) async throws -> Result {
    let transport = UnixClientTransport(
      connected: try await self.connection(to: socket), on: self.reactor)
    return try await ConnectivitySession.withClient(over: transport) { try await body($0) }
  }

  func watch(
    _ request: Connectivity_V1_WatchRequest, at socket: String,
    accepted: @escaping @Sendable () async throws -> Void,
    _ take: @escaping @Sendable (Connectivity_V1_WatchResponse) async throws -> Void
  ) async throws {
    let transport = UnixClientTransport(
      connected: try await self.connection(to: socket), on: self.reactor)
    try await transport.stream(
      Connectivity_V1_Connectivity.Method.Watch.descriptor, try request.serializedBytes(),
      accepted: accepted
    ) { try await take(try Connectivity_V1_WatchResponse(serializedBytes: $0)) }
  }

  func farewell(of socket: String) async -> String? { SocketProbe.farewell(from: socket) }

  /// How long to wait for room in the listen backlog.
  private static let patience = Duration.seconds(5)

  private func connection(to socket: String) async throws -> CInt {
    let end = ContinuousClock.now + Self.patience
    while true {
      if let connection = try SocketProbe.connection(to: socket) { return connection }
      // Lets a timeout take effect in between.
      await Task.yield()
      try Task.checkCancellation()
      if ContinuousClock.now > end {
        throw ConndError.failed("\(socket): connd accepts no connections and its backlog is full")
      }
    }
  }
}
