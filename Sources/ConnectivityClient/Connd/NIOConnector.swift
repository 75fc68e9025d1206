internal import ConnectivityProtocol
internal import ConnectivitySession
internal import GRPCCore
private import NIOCore
private import NIOPosix

/// Connects to connd with NIO, on the single thread for all of a process's connections to it.
struct NIODialler: Connector {
  /// Whether it shares a connection with all other users that read input immediately.
  var shares = true

  var executor: any TaskExecutor { EventLoopTaskExecutor(ClientThread.eventLoop) }

  func withClient<Result: Sendable>(
    of socket: String,
    _ body: (any Connectivity_V1_Connectivity.ClientProtocol) async throws -> Result
  ) async throws -> Result {
    try await self.connection(to: socket) { try await body($0) }
  }

  private func connection<Result: Sendable>(
    to socket: String, _ body: (ConndClient) async throws -> Result
  ) async throws -> Result {
    if self.shares { return try await SharedConnection.with(socket, body) }
    return try await withNIOConnection(to: socket, body)
  }

  func watch(
    _ request: Connectivity_V1_WatchRequest, at socket: String,
    accepted: @escaping @Sendable () async throws -> Void,
    _ take: @escaping @Sendable (Connectivity_V1_WatchResponse) async throws -> Void
  ) async throws {
    try await self.connection(to: socket) { connd in
      try await connd.watch(request) { response in
        // The header arrives immediately, the first message only with the first change.
        _ = try response.accepted.get()
        try await accepted()
        for try await message in response.messages { try await take(message) }
      }
    }
  }

  func farewell(of socket: String) async -> String? {
    await self.farewell(of: socket, within: SocketProbe.patience)
  }

  func farewell(of socket: String, within patience: Duration) async -> String? {
    let eventLoop = ClientThread.eventLoop
    let reason = eventLoop.makePromise(of: String?.self)
    let connection = ClientBootstrap(group: eventLoop).channelInitializer { channel in
      channel.eventLoop.makeCompletedFuture {
        try channel.pipeline.syncOperations.addHandler(FarewellReader(reason))
      }
    }.connect(unixDomainSocketPath: socket)
    connection.whenFailure { _ in reason.succeed(nil) }
    let alarm = eventLoop.scheduleTask(in: TimeAmount(patience)) { reason.succeed(nil) }
    let answer = try? await reason.futureResult.get()
    alarm.cancel()
    connection.whenSuccess { $0.close(promise: nil) }
    return answer ?? nil
  }
}

/// Reads the reason with which a server closes a connection before any request.
private final class FarewellReader: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer

  /// `nil` if the server gives none.
  private let reason: EventLoopPromise<String?>
  private var bytes: [UInt8] = []
  /// A farewell is never longer than this.
  private static let most = 4096

  init(_ reason: EventLoopPromise<String?>) { self.reason = reason }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let buffer = self.unwrapInboundIn(data)
    self.bytes += buffer.readableBytesView.prefix(Self.most - self.bytes.count)
    if let words = SocketProbe.reason(in: self.bytes[...]) { self.reason.succeed(words) }
  }

  func channelInactive(context: ChannelHandlerContext) { self.reason.succeed(nil) }
}
