import GRPCCore
import NIOCore
import NIOHPACK
import NIOHTTP2

/// Stands before the handlers of one call: it admits the call and its messages or answers with RESOURCE_EXHAUSTED, and
/// says who calls.
///
/// The transport, too, knows how long a message may be, but what it answers to one that is longer is CANCELLED.
final class StreamGate: ChannelDuplexHandler {
  typealias InboundIn = HTTP2Frame.FramePayload
  typealias InboundOut = HTTP2Frame.FramePayload
  typealias OutboundIn = HTTP2Frame.FramePayload
  typealias OutboundOut = HTTP2Frame.FramePayload

  private let doorkeeper: Doorkeeper
  private let peer: PeerCredentials
  private let refusal: Doorkeeper.Refusal?
  private var meter: MessageMeter
  private var hasResponded = false
  private var isClosed = false

  /// - Parameter stream: a stream that has just come; it counts until it is closed.
  /// - Throws: where nobody knows whose it is.
  init(_ stream: any Channel, _ doorkeeper: Doorkeeper, messageSize: Int) throws {
    guard let connection = stream.parent else { throw ChannelError.inappropriateOperationForState }
    let peer = try connection.pipeline.syncOperations.handler(type: PeerHandler.self).credentials
    self.doorkeeper = doorkeeper
    self.peer = peer
    self.meter = MessageMeter(most: messageSize)
    do throws(Doorkeeper.Refusal) {
      try doorkeeper.admit(.streams, peer)
      stream.closeFuture.whenComplete { _ in doorkeeper.release(.streams, peer) }
      self.refusal = nil
    } catch {
      self.refusal = error
    }
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard !self.isClosed else { return }
    switch self.unwrapInboundIn(data) {
    case .headers(var payload):
      if let refusal = self.refusal {
        self.refuse(refusal.message, context)
      } else {
        payload.headers.setPeerUID(self.peer.uid)
        // Clients keep their deadlines themselves (gRPC's PROTOCOL-HTTP2.md). grpc-swift would keep them, too, by a timer that
        // outlives the call: `Task.sleep` leaves it to libdispatch, also when it is cancelled.
        payload.headers.remove(name: "grpc-timeout")
        context.fireChannelRead(self.wrapInboundOut(.headers(payload)))
      }
    case .data(var payload):
      guard case .byteBuffer(let bytes) = payload.data else { return }
      guard !self.meter.admits(bytes) else {
        // A slice of what was read from the socket keeps all of that: half a message would take up to 64 KiB.
        payload.data = .byteBuffer(ByteBuffer(bytes: bytes.readableBytesView))
        context.fireChannelRead(self.wrapInboundOut(.data(payload)))
        return
      }
      self.doorkeeper.turnedAway(self.peer, limit: "messageSize")
      self.refuse(
        "a request has at most \(self.meter.most) bytes (limits.messageSize)", context)
    default:
      context.fireChannelRead(data)
    }
  }

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    if !self.hasResponded, case .headers = self.unwrapOutboundIn(data) { self.hasResponded = true }
    context.write(data, promise: promise)
  }

  /// Ends the call, and lets go of its stream whether the client is done or not.
  private func refuse(_ message: String, _ context: ChannelHandlerContext) {
    self.isClosed = true
    var headers: HPACKHeaders =
      self.hasResponded ? [:] : [":status": "200", "content-type": "application/grpc"]
    headers.add(name: "grpc-status", value: "\(Status.Code.resourceExhausted.rawValue)")
    headers.add(name: "grpc-message", value: message)
    context.write(
      self.wrapOutboundOut(.headers(.init(headers: headers, endStream: true))), promise: nil)
    // Closing the channel would say CANCEL, and some clients take that for the status (RFC 9113, 8.1).
    context.writeAndFlush(self.wrapOutboundOut(.rstStream(.noError)), promise: nil)
  }
}
