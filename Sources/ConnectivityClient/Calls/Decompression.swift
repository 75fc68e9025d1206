internal import DequeModule
internal import GRPCCore
internal import NIOCore
internal import NIOHPACK
internal import NIOHTTP2
internal import Synchronization

/// How large a compressed response may become. A call whose response becomes larger fails with `RESOURCE_EXHAUSTED`.
///
/// Responses that are not compressed are none of its business. gRPC decompresses a message before the limit is applied
/// to it, and gives it up when it gets larger than a response may be (4 MiB unless set): that is what a bomb can cost.
public enum DecompressionLimit: Hashable, Sendable {
  /// No larger than this, in bytes.
  case absolute(Int)
  /// No larger than this many times its compressed size. Text that repeats itself often gets to 20 times and more.
  case ratio(Int)

  /// - Throws: `RESOURCE_EXHAUSTED`, where a message of `compressed` bytes may not become one of `decompressed`.
  func check(compressed: Int, decompressed: Int) throws(RPCError) {
    let limit: (bytes: Int, words: String)
    switch self {
    case .absolute(let bytes):
      limit = (bytes, "\(bytes) bytes are allowed")
    case .ratio(let ratio):
      let (bytes, overflows) = compressed.multipliedReportingOverflow(by: ratio)
      limit = (overflows ? .max : bytes, "\(ratio) times that is allowed")
    }
    guard decompressed > limit.bytes else { return }
    throw RPCError(
      code: .resourceExhausted,
      message: "A response of \(compressed) bytes became \(decompressed) bytes when it was "
        + "decompressed, and \(limit.words)")
  }
}

/// Holds a channel's compressed responses to its ``DecompressionLimit``.
///
/// gRPC inflates a message before anybody sees it, and tells nobody how small it was. So a handler in front of gRPC's
/// (``handler()``) notes the size of each message as it comes off the wire, and who reads the responses compares. They
/// find each other by a header: the reader marks the request's metadata, and the handler takes the mark off before the
/// request leaves.
///
/// For each call: ``begin()``, then ``ResponseSizes/mark(_:)`` on the metadata that is sent and
/// ``ResponseSizes/check(_:)`` on each message received, in order, and ``end(_:)`` when the stream is closed. Streams
/// without the handler must not be marked: the mark would go out.
final class DecompressionGuard: Sendable {
  /// The header between the reader and the handler.
  static let key = "connd-response-sizes"

  private struct State {
    var last: UInt64 = 0
    var open: [UInt64: ResponseSizes] = [:]
  }

  private let limit: DecompressionLimit
  private let state = Mutex(State())

  init(limit: DecompressionLimit) { self.limit = limit }

  /// A call begins.
  func begin() -> ResponseSizes {
    self.state.withLock { state in
      state.last += 1
      let sizes = ResponseSizes(id: state.last, limit: self.limit)
      state.open[state.last] = sizes
      return sizes
    }
  }

  /// Nobody reads the call's responses any more.
  func end(_ sizes: ResponseSizes) {
    self.state.withLock { _ = $0.open.removeValue(forKey: sizes.id) }
  }

  /// For one HTTP/2 stream: to be added at the head of its pipeline, after gRPC added its own.
  func handler() -> ResponseSizesHandler { ResponseSizesHandler(self) }

  /// The open call that bears the mark.
  fileprivate func find(_ mark: String) -> ResponseSizes? {
    guard let id = UInt64(mark) else { return nil }
    return self.state.withLock { $0.open[id] }
  }
}

/// The sizes of one call's responses on the wire, in the order they came, until they are compared.
final class ResponseSizes: Sendable {
  let id: UInt64
  private let limit: DecompressionLimit
  /// `nil` for a message that is not compressed.
  private let waiting = Mutex<Deque<Int?>>([])

  init(id: UInt64, limit: DecompressionLimit) {
    self.id = id
    self.limit = limit
  }

  /// Tells the handler of the stream whose call this is.
  func mark(_ metadata: inout Metadata) {
    metadata.replaceOrAddString("\(self.id)", forKey: DecompressionGuard.key)
  }

  /// A message begins on the wire; called before gRPC sees it.
  func arrived(_ prefix: MessagePrefix) {
    self.waiting.withLock { $0.append(prefix.isCompressed ? prefix.length : nil) }
  }

  /// The size of the next message on the wire, in bytes; `nil` where it is not compressed.
  func next() -> Int? { self.waiting.withLock { $0.popFirst() } ?? nil }

  /// Compares the next message, of `size` bytes when decompressed.
  ///
  /// - Throws: `RESOURCE_EXHAUSTED` where it may not have become that large.
  func check(_ size: Int) throws(RPCError) {
    guard let compressed = self.next() else { return }
    try self.limit.check(compressed: compressed, decompressed: size)
  }
}

extension Status {
  /// The status that gRPC should have given: grpc-swift-nio-transport 2.9 gives up a message that is too large with `INTERNAL`.
  ///
  /// Only its words tell that from a message that is broken, and it has them only where all requests were sent before.
  var corrected: Status {
    guard self.code == .internalError, self.message.hasPrefix("Failed to decode message"),
      self.message.contains("resourceExhausted")
    else { return self }
    return Status(code: .resourceExhausted, message: self.message)
  }
}

/// What is in front of each message of a gRPC stream: a byte that says whether it is compressed, four of its length.
struct MessagePrefix: Hashable, Sendable {
  var isCompressed: Bool
  /// In bytes, as it is on the wire.
  var length: Int
}

/// Finds the prefixes in the bytes of a stream, however they are cut into frames. Keeps five bytes at most.
struct MessagePrefixParser: Sendable {
  /// The bytes of a prefix that have come, in the low end.
  private var prefix: UInt64 = 0
  private var prefixBytes = 0
  /// What is still to come of the present message.
  private var body = 0

  /// Calls `each` for every prefix that is complete with these bytes.
  mutating func read(_ bytes: ByteBufferView, each: (MessagePrefix) -> Void) {
    var rest = bytes
    while !rest.isEmpty {
      let skipped = min(self.body, rest.count)
      self.body -= skipped
      rest = rest.dropFirst(skipped)
      while self.prefixBytes < 5, let byte = rest.first {
        self.prefix = self.prefix << 8 | UInt64(byte)
        self.prefixBytes += 1
        rest = rest.dropFirst()
      }
      guard self.prefixBytes == 5 else { return }
      let found = MessagePrefix(
        isCompressed: self.prefix >> 32 == 1, length: Int(self.prefix & 0xFFFF_FFFF))
      self.prefix = 0
      self.prefixBytes = 0
      self.body = found.length
      each(found)
    }
  }
}

/// Notes the sizes of responses on one HTTP/2 stream, for the call that the request's headers are marked with.
final class ResponseSizesHandler: ChannelDuplexHandler {
  typealias InboundIn = HTTP2Frame.FramePayload
  typealias InboundOut = HTTP2Frame.FramePayload
  typealias OutboundIn = HTTP2Frame.FramePayload
  typealias OutboundOut = HTTP2Frame.FramePayload

  private let `guard`: DecompressionGuard
  private var sizes: ResponseSizes?
  private var parser = MessagePrefixParser()

  init(_ guard: DecompressionGuard) { self.guard = `guard` }

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    guard case .headers(var payload) = self.unwrapOutboundIn(data),
      let mark = payload.headers.first(name: DecompressionGuard.key)
    else { return context.write(data, promise: promise) }
    self.sizes = self.guard.find(mark)
    payload.headers.remove(name: DecompressionGuard.key)
    context.write(self.wrapOutboundOut(.headers(payload)), promise: promise)
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    if let sizes = self.sizes, case .data(let frame) = self.unwrapInboundIn(data),
      case .byteBuffer(let buffer) = frame.data
    {
      self.parser.read(buffer.readableBytesView) { sizes.arrived($0) }
    }
    context.fireChannelRead(data)
  }
}
