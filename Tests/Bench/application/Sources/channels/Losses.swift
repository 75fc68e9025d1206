import ConnectivityClient
import GRPCCore
import Synchronization

/// For each line of input: opens a call on each channel, and prints `open` when the server has
/// accepted all of them. When all have ended because their network is gone, prints `ended LAST
/// HEARD`, in ns of CLOCK_MONOTONIC. HEARD is when the library learned of the last one's loss, or 0
/// if that is not requested.
func loseCalls(
  to server: Server, socket: String, channels: Int, tellsHeard: Bool,
  _ input: AsyncStream<String>
) async throws {
  let heard = Atomic(0)
  let clients = try (0..<channels).map { _ in
    GRPCClient(
      transport: try server.networkAware(
        socket,
        onInvalidation: tellsHeard
          ? .custom { invalidation in
            guard invalidation.severity == .destroy else { return .keep }
            heard.store(now(), ordering: .relaxed)
            return .destroy
          }
          : .destroy))
  }
  try await withThrowingTaskGroup(of: Void.self) { connections in
    for client in clients { connections.addTask { try await client.runConnections() } }
    for await _ in input {
      let (opened, opening) = AsyncStream.makeStream(of: Void.self)
      let last = await withTaskGroup(of: Int.self) { calls in
        var waits = opened.makeAsyncIterator()
        for (number, client) in clients.enumerated() {
          // Not more at a time than a server's backlog.
          if number >= backlog { await waits.next() }
          calls.addTask { await endOfCall(client) { opening.yield() } }
        }
        for _ in 0..<min(backlog, clients.count) { await waits.next() }
        say("open")
        var last = 0
        for await end in calls { last = max(last, end) }
        return last
      }
      say("ended \(last) \(heard.load(ordering: .relaxed))")
    }
    for client in clients { client.beginGracefulShutdown() }
    try await connections.waitForAll()
  }
}

private let backlog = 50

/// Returns when a call saw that its network is gone.
private func endOfCall(
  _ client: GRPCClient<NetworkAwareTransport>, onOpen: @escaping @Sendable () -> Void
) async -> Int {
  do {
    // The request does not end either.
    try await client.bidirectionalStreaming(
      request: StreamingClientRequest { _ in for await _ in AsyncStream<Void>.makeStream().stream {}
      },
      descriptor: Echo.hang, serializer: Bytes(), deserializer: Bytes(), options: .defaults
    ) { response in
      _ = try response.accepted.get()
      onOpen()
      for try await _ in response.messages {}
    }
    fail("a call ended by itself")
  } catch let error as RPCError where error.code == .unavailable && error.invalidation != nil {
    return now()
  } catch {
    fail("a call ended with \(error)")
  }
}
