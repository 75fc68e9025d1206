internal import ConnectivityProtocol
internal import ConnectivitySession
internal import GRPCCore

/// Dials connd by NIO, on the one thread that serves all of a process's connections to it.
struct NIODialler: Dialler {
  var executor: any TaskExecutor { EventLoopTaskExecutor(ClientThread.eventLoop) }

  func withClient<Result: Sendable>(
    of socket: String,
    _ body: (any Connectivity_V1_Connectivity.ClientProtocol) async throws -> Result
  ) async throws -> Result {
    try await withNIOConnection(to: socket) { try await body($0) }
  }

  func watch(
    _ request: Connectivity_V1_WatchRequest, at socket: String,
    accepted: @escaping @Sendable () async throws -> Void,
    _ take: @escaping @Sendable (Connectivity_V1_WatchResponse) async throws -> Void
  ) async throws {
    try await withNIOConnection(to: socket) { connd in
      try await connd.watch(request) { response in
        // The header comes at once, the first message only when something changes.
        _ = try response.accepted.get()
        try await accepted()
        for try await message in response.messages { try await take(message) }
      }
    }
  }
}
