import ConnectivityClient
import NIOCore
import NIOHTTP1
import NIOPosix

/// Gets pictures from an HTTP server, at the lowest cost.
package struct Album: Sendable {
  private let host: String
  private let port: Int
  package var socket = ConndSocket.default

  package init(host: String, port: Int) { (self.host, self.port) = (host, port) }

  /// Returns the large picture on unmetered networks, otherwise the small one.
  package func picture(large: String, small: String) async throws -> ByteBuffer {
    try await withFallback(on: [.constrained, .expensive]) {
      try await self.get(large, over: .inexpensive)
    } fallback: { reason in
      try await self.get(small)
    }
  }

  /// Copies pictures, one after the other, and only on unmetered networks. If the network becomes
  /// metered during a transfer, the transfer is cancelled and repeated later.
  ///
  /// - Parameters:
  ///   - onWait: Called with the current path while nothing is copied.
  ///   - keep: Stores each picture.
  package func copy(
    _ pictures: [String], onWait: @escaping @Sendable (NetworkPath) -> Void = { _ in },
    keep: (String, ByteBuffer) async throws -> Void
  ) async throws {
    let task = DiscretionaryTask(
      config: .defaults {
        $0.monitor = PathMonitor(socket: self.socket)
        $0.onWait = onWait
      })
    try await task.run { network in
      for picture in pictures {
        let bytes = try await network.restarting {
          try await self.get(picture, over: .inexpensive)
        }
        try await keep(picture, bytes)
      }
    }
  }

  /// Gets one picture over a separate connection, because the access applies to a connection. On a
  /// forbidden network the connection is not made.
  private func get(
    _ path: String, over access: NetworkAccess = .unrestricted
  ) async throws -> ByteBuffer {
    var guarding = ConnectivityGuardHandler.Config.defaults
    (guarding.socket, guarding.access) = (self.socket, access)
    let exchange = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .connect(host: self.host, port: self.port) { [guarding] channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(ConnectivityGuardHandler(config: guarding))
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
