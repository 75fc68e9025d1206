import CLinux
import GRPCCore
import NIOCore
import NIOHPACK

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

/// Keeps the credentials with their connection, at the head of its handlers.
///
/// And it ends every reading, also one that ends the connection: NIO does not say then that the reading is complete, and until
/// it is, the multiplexer holds the streams that began in it, which hold the multiplexer, for ever
/// (`HTTP2CommonInboundStreamMultiplexer.didReadChannels`, swift-nio-http2 1.46).
final class PeerHandler: ChannelInboundHandler {
  typealias InboundIn = NIOAny

  let credentials: PeerCredentials
  private var isReading = false

  init(_ credentials: PeerCredentials) {
    self.credentials = credentials
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    self.isReading = true
    context.fireChannelRead(data)
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    self.isReading = false
    context.fireChannelReadComplete()
  }

  func channelInactive(context: ChannelHandlerContext) {
    if self.isReading {
      // Not at once, for this may be amid what was read; but before the handlers are removed, which waits in the same queue.
      context.eventLoop.assumeIsolated().execute { context.fireChannelReadComplete() }
    }
    context.fireChannelInactive()
  }
}

/// The header that tells a call's handler who calls, since the transport has no other way of telling it
/// (grpc-swift-nio-transport#192).
private let peerHeader = "x-connd-peer-uid"

extension HPACKHeaders {
  /// Names the peer. What a client sends under that name is dropped.
  mutating func setPeerUID(_ uid: UInt32) {
    self.replaceOrAdd(name: peerHeader, value: String(uid))
  }
}

extension Metadata {
  /// The user who makes the call; `nil` where the kernel did not say.
  var peerUID: UInt32? {
    self[stringValues: peerHeader].first { _ in true }.flatMap { UInt32($0) }
  }
}
