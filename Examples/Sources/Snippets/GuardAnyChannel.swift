// The examples of the article GuardAnyChannel: it contains the code between the marks.

import AsyncHTTPClient

// snippet: imports
import ConnectivityClient
import NIOCore
import NIOPosix
// end

private func show(_ text: String) {}

func guardAnyChannelBootstrap() async throws {
  // snippet: bootstrap
  let channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
    .channelInitializer { channel in
      channel.eventLoop.makeCompletedFuture {
        try channel.pipeline.syncOperations.addHandler(ConnectivityGuardHandler())
        try channel.pipeline.syncOperations.addHandler(MyHandler())
      }
    }
    .connect(host: "example.com", port: 80).get()
  // end
  show("\(channel)")
}

private final class MyHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer

  // snippet: events
  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    switch event as? ConnectionEvent {
    case .viable: show("goes on")
    case .notViable(let reason): show("no data arrives: \(reason)")
    case .betterPathAvailable: show("make a new connection; close this one when it is idle")
    case .betterPathGone: show("the better path is gone: keep this connection")
    case .pathChanged(let path): show("by \(path.interface ?? "nothing")")
    default: context.fireUserInboundEventTriggered(event)
    }
  }
  // end
}

extension HTTPClient.Configuration {
  /// Guards all connections of a client.
  package mutating func guardConnections(_ config: ConnectivityGuardHandler.Config = .defaults) {
    let add: @Sendable (any Channel) -> EventLoopFuture<Void> = { channel in
      channel.eventLoop.makeCompletedFuture {
        // Before the client's own handlers, which must receive its events and its error.
        try channel.pipeline.syncOperations.addHandler(
          ConnectivityGuardHandler(config: config), position: .first)
      }
    }
    self.http1_1ConnectionDebugInitializer = add
    self.http2ConnectionDebugInitializer = add
    // The client runs its hook after connecting. Until then, only this limit ends an attempt.
    self.timeout.connect = .seconds(2)
  }
}

func guardAnyChannelRefuse() {
  // snippet: refuse
  let config = ConnectivityGuardHandler.Config.defaults {
    $0.access = .inexpensive
    $0.access.whenUnknown = .refuse
  }
  // end
  show("\(config)")
}

func guardAnyChannelOtherWay() async throws {
  // snippet: otherWay
  let address = try SocketAddress.makeAddressResolvingHost("example.com", port: 80)
  let way = await ConnectivityGuardHandler.otherWay(to: address)
  guard let way, way.isAllowed, let link = way.path?.chain.first else { return }
  let bindToLink = ChannelOptions.Types.SocketOption(
    level: .socket, name: .init(rawValue: 62))  // SO_BINDTOIFINDEX
  let second = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
    .channelOption(bindToLink, value: .init(link.index))
    .channelInitializer { channel in
      channel.eventLoop.makeCompletedFuture {
        try channel.pipeline.syncOperations.addHandler(ConnectivityGuardHandler())
      }
    }
    .connect(to: address).get()
  // end
  show("\(second)")
}

/// As libpq declares it.
// swift-format-ignore: AlwaysUseLowerCamelCase
private func PQsocket(_ connection: OpaquePointer) -> CInt { -1 }

func guardAnyChannelDescriptor(_ connection: OpaquePointer) throws {
  // snippet: descriptor
  let watch = try SocketGuard(
    descriptor: PQsocket(connection), config: .defaults { $0.shutsDown = true })
  // end
  watch.end()
}
