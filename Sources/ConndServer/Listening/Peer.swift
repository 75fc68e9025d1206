import CLinux
import GRPCCore
import NIOCore
import NIOHPACK
import NIOHTTP2

/// Who is at the other end of a connection, by the kernel's word (SO_PEERCRED, unix(7)).
struct PeerCredentials: Sendable, Hashable {
  var uid: UInt32
  var pid: Int32

  static func read(of channel: any Channel) -> EventLoopFuture<PeerCredentials> {
    guard let provider = channel as? any SocketOptionProvider else {
      return channel.eventLoop.makeFailedFuture(ChannelError.operationUnsupported)
    }
    return provider.unsafeGetSocketOption(
      level: .socket, name: NIOBSDSocket.Option(rawValue: SO_PEERCRED)
    ).map { (credentials: clinux_credentials) in
      PeerCredentials(uid: credentials.uid, pid: credentials.pid)
    }
  }
}

/// Keeps the credentials with their connection.
final class PeerHandler: ChannelInboundHandler {
  typealias InboundIn = NIOAny

  let credentials: PeerCredentials

  init(_ credentials: PeerCredentials) {
    self.credentials = credentials
  }
}

/// Writes the peer's uid into the headers of a call, since the transport has no other way of telling it to the call's
/// handler (grpc-swift-nio-transport#192). What a client sends under that name is dropped.
final class PeerHeaderHandler: ChannelInboundHandler {
  typealias InboundIn = HTTP2Frame.FramePayload
  typealias InboundOut = HTTP2Frame.FramePayload

  fileprivate static let name = "x-connd-peer-uid"

  private let uid: UInt32?

  init(_ stream: any Channel) {
    let handler = try? stream.parent?.pipeline.syncOperations.handler(type: PeerHandler.self)
    self.uid = handler?.credentials.uid
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard case .headers(var payload) = self.unwrapInboundIn(data) else {
      context.fireChannelRead(data)
      return
    }
    payload.headers.remove(name: Self.name)
    if let uid = self.uid { payload.headers.add(name: Self.name, value: String(uid)) }
    context.fireChannelRead(self.wrapInboundOut(.headers(payload)))
  }
}

extension Metadata {
  /// The user who makes the call; `nil` where the kernel did not say.
  var peerUID: UInt32? {
    self[stringValues: PeerHeaderHandler.name].first { _ in true }.flatMap { UInt32($0) }
  }
}
