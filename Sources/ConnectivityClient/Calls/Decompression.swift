internal import DequeModule
internal import GRPCCore
internal import NIOCore
internal import NIOHPACK
internal import NIOHTTP2
internal import Synchronization

/// The maximum size of a decompressed response. A call with a larger response fails with
/// `RESOURCE_EXHAUSTED`.
///
/// Does not apply to uncompressed responses. gRPC decompresses a message before this limit applies,
/// and stops at the maximum size of a response (4 MiB by default). A decompression bomb cannot use
/// more memory than that.
///
/// Implements rule C9.
@nonexhaustive public enum DecompressionLimit: Hashable, Sendable {
  /// A size in bytes.
  case absolute(Int)
  /// A multiple of the compressed size. Repetitive text often reaches 20 times and more.
  case ratio(Int)

  /// - Throws: `RESOURCE_EXHAUSTED` if a message of `compressed` bytes may not decompress to
  ///   `decompressed` bytes.
  func check(compressed: Int, decompressed: Int) throws(RPCError) {
    let limit: (bytes: Int, text: String)
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
        + "decompressed, and \(limit.text)")
  }
}

/// Enforces each call's ``DecompressionLimit``, and the algorithms that the call accepts for
/// responses.
///
/// gRPC decompresses a message first, and does not report its compressed size. Therefore a handler
/// in front of gRPC's (``handler()``) records the size of each message on the wire. The reader of
/// the responses compares the two sizes. A header identifies the call to the handler: the reader
/// marks the request's metadata, and the handler removes the mark before the request is sent.
///
/// For each call, use ``begin(_:)``, then ``ResponseSizes/mark(_:)`` with the metadata to send. Use
/// ``ResponseSizes/check(_:)`` with each received message, in order, and ``end(_:)`` when the
/// stream is closed. Do not mark streams without the handler, because the mark would be sent.
final class DecompressionGuard: Sendable {
  /// The header that the reader sets and the handler removes.
  static let key = "connd-response-sizes"

  private struct State {
    var last: UInt64 = 0
    var open: [UInt64: ResponseSizes] = [:]
  }

  private let state = Mutex(State())

  /// Starts a call. Returns `nil` if its settings contain nothing to enforce.
  func begin(_ settings: CallSettings) -> ResponseSizes? {
    if settings.decompressionLimit == nil, settings.acceptedCompression == .all { return nil }
    return self.state.withLock { state in
      state.last += 1
      let sizes = ResponseSizes(
        id: state.last, limit: settings.decompressionLimit,
        accepted: settings.acceptedCompression)
      state.open[state.last] = sizes
      return sizes
    }
  }

  /// Ends a call when its responses are no longer read.
  func end(_ sizes: ResponseSizes) {
    self.state.withLock { _ = $0.open.removeValue(forKey: sizes.id) }
  }

  /// Returns a handler for one HTTP/2 stream. Add it at the head of the stream's pipeline, once
  /// gRPC's own handlers are there.
  func handler() -> ResponseSizesHandler { ResponseSizesHandler(self) }

  /// Returns the open call with this mark, or `nil` if it has ended.
  fileprivate func find(_ mark: String) -> ResponseSizes? {
    guard let id = UInt64(mark) else { return nil }
    return self.state.withLock { $0.open[id] }
  }
}

/// The algorithms that one call accepts, and the wire sizes of its responses that are not checked
/// yet, in order.
final class ResponseSizes: Sendable {
  let id: UInt64
  /// `nil` means no limit.
  private let limit: DecompressionLimit?
  private let accepted: CompressionAlgorithmSet
  /// The wire sizes, in bytes, of messages that are not checked yet; `nil` for an uncompressed one.
  private let waiting = Mutex<Deque<Int?>>([])

  init(id: UInt64, limit: DecompressionLimit?, accepted: CompressionAlgorithmSet = .all) {
    self.id = id
    self.limit = limit
    self.accepted = accepted
  }

  /// Removes algorithms that the call does not accept from the request's headers.
  func restrict(_ headers: inout HPACKHeaders) {
    if self.accepted == .all { return }
    let name = "grpc-accept-encoding"
    let offered = headers[canonicalForm: name]
    headers.remove(name: name)
    for algorithm in offered where self.accepted.contains(named: algorithm) {
      headers.add(name: name, value: String(algorithm))
    }
  }

  /// Marks the metadata, so that the stream's handler finds this call.
  func mark(_ metadata: inout Metadata) {
    metadata.replaceOrAddString("\(self.id)", forKey: DecompressionGuard.key)
  }

  /// Records the start of a message on the wire, before gRPC sees it.
  func arrived(_ prefix: MessagePrefix) {
    if self.limit == nil { return }
    self.waiting.withLock { $0.append(prefix.isCompressed ? prefix.length : nil) }
  }

  /// Removes and returns the size of the next message on the wire, in bytes, or `nil` if it is not
  /// compressed.
  func next() -> Int? { self.waiting.withLock { $0.popFirst() } ?? nil }

  /// Checks the next message, which has `size` bytes after decompression.
  ///
  /// - Throws: `RESOURCE_EXHAUSTED` if the message is too large.
  func check(_ size: Int) throws(RPCError) {
    guard let limit = self.limit, let compressed = self.next() else { return }
    try limit.check(compressed: compressed, decompressed: size)
  }
}

extension CompressionAlgorithmSet {
  /// Returns whether the set contains the algorithm with this wire name.
  fileprivate func contains(named name: some StringProtocol) -> Bool {
    switch name {
    case "gzip": self.contains(.gzip as CompressionAlgorithm)
    case "deflate": self.contains(.deflate as CompressionAlgorithm)
    default: name == "identity"
    }
  }
}

extension Status {
  /// The status with the correct code. grpc-swift-nio-transport 2.9 rejects a message that is too
  /// large with `INTERNAL`.
  ///
  /// Only the text distinguishes this case from a malformed message. The text is present only if
  /// all requests had been sent.
  var corrected: Status {
    guard self.code == .internalError, self.message.hasPrefix("Failed to decode message"),
      self.message.contains("resourceExhausted")
    else { return self }
    return Status(code: .resourceExhausted, message: self.message)
  }
}

/// The prefix of each message of a gRPC stream: one byte for whether it is compressed, and four
/// bytes for its length.
struct MessagePrefix: Hashable, Sendable {
  var isCompressed: Bool
  /// The size on the wire, in bytes.
  var length: Int
}

/// Finds the prefixes in the bytes of a stream, however they are split into frames. Keeps at most
/// five bytes.
struct MessagePrefixParser: Sendable {
  /// The received bytes of an incomplete prefix, in the low bytes.
  private var prefix: UInt64 = 0
  private var prefixBytes = 0
  /// The number of bytes left of the current message.
  private var body = 0

  /// Calls `each` for every prefix that these bytes complete.
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

/// Records the sizes of responses on one HTTP/2 stream. A mark in the request's headers identifies
/// the call.
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
    self.sizes?.restrict(&payload.headers)
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
