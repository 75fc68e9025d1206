import ConnectivityClient
import NIOCore
import NIOHTTP1
import NIOPosix

/// Pictures of an HTTP server, for as little money as can be.
package struct Album: Sendable {
  private let host: String
  private let port: Int
  /// connd's socket.
  package var socket = SocketPath.default
  /// Whether it is guarded also where it does not leave the machine, as in a test.
  package var guardsLoopback = false

  package init(host: String, port: Int) { (self.host, self.port) = (host, port) }

  /// A picture: the large one where that costs nothing, else the small one.
  package func picture(large: String, small: String) async throws -> ByteBuffer {
    try await withFallback(on: [.constrained, .expensive]) {
      try await self.get(large, over: .inexpensive)
    } fallback: { reason in
      try await self.get(small)
    }
  }

  /// Copies pictures, one after the other, and only where that costs nothing. One that is under way when it begins to cost money is
  /// given up, and fetched anew later.
  ///
  /// - Parameters:
  ///   - onWait: Told what path there is while nothing is copied.
  ///   - keep: What becomes of each.
  package func copy(
    _ pictures: [String], onWait: @escaping @Sendable (NetworkPath) -> Void = { _ in },
    keep: (String, ByteBuffer) async throws -> Void
  ) async throws {
    let task = DiscretionaryTask {
      $0.monitor = PathMonitor(socket: self.socket)
      $0.onWait = onWait
    }
    try await task.run { network in
      for picture in pictures {
        let bytes = try await network.restarting {
          try await self.get(picture, over: .inexpensive)
        }
        try await keep(picture, bytes)
      }
    }
  }

  /// A connection for each, which is what the access is said of: where it may not use its network it is not made.
  private func get(
    _ path: String, over access: NetworkAccess = .unrestricted
  ) async throws -> ByteBuffer {
    var guarding = ConnectivityGuardHandler.Configuration()
    (guarding.socket, guarding.access) = (self.socket, access)
    guarding.guardsLoopback = self.guardsLoopback
    let exchange = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .connect(host: self.host, port: self.port) { [guarding] channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(ConnectivityGuardHandler(guarding))
          try channel.pipeline.syncOperations.addHTTPClientHandlers()
          return try Exchange(wrappingChannelSynchronously: channel)
        }
      }
    return try await exchange.executeThenClose { inbound, outbound in
      let headers: HTTPHeaders = ["host": self.host, "connection": "close"]
      try await outbound.write(
        .head(HTTPRequestHead(version: .http1_1, method: .GET, uri: path, headers: headers)))
      try await outbound.write(.end(nil))
      var picture = ByteBuffer()
      for try await part in inbound {
        switch part {
        case .head: break
        case .body(var bytes): picture.writeBuffer(&bytes)
        case .end: return picture
        }
      }
      try Task.checkCancellation()
      throw ChannelError.eof
    }
  }

  private typealias Exchange = NIOAsyncChannel<HTTPClientResponsePart, HTTPClientRequestPart>
}
