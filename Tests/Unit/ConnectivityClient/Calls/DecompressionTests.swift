import GRPCCore
import GRPCNIOTransportHTTP2Posix
import GRPCProtobuf
import NIOCore
import NIOEmbedded
import NIOHPACK
import NIOHTTP2
import SwiftProtobuf
import Synchronization
import Testing

@testable import ConnectivityClient
@testable import ConnectivityMonitor

@Suite("Decompression limits", .timeLimit(.minutes(5)), .namesWaits)
struct DecompressionTests {
  @Test(
    "C9 a response may be as large as the limit, but not larger",
    arguments: [
      (.absolute(1000), 10, 1000, true), (.absolute(1000), 10, 1001, false),
      (.absolute(0), 20, 0, true), (.ratio(20), 10, 200, true), (.ratio(20), 10, 201, false),
      // Small messages grow when they are compressed.
      (.ratio(1), 30, 10, true), (.ratio(.max), 4096, .max, true), (.ratio(0), 10, 1, false),
    ] as [(DecompressionLimit, Int, Int, Bool)])
  func limits(limit: DecompressionLimit, compressed: Int, decompressed: Int, isAllowed: Bool) {
    let sizes = ResponseSizes(id: 1, limit: limit)
    sizes.arrived(MessagePrefix(isCompressed: true, length: compressed))
    if isAllowed {
      #expect(throws: Never.self) { try sizes.check(decompressed) }
    } else {
      let error = #expect(throws: RPCError.self) { try sizes.check(decompressed) }
      #expect(error?.code == .resourceExhausted)
    }
  }

  @Test("C9 the error names the limit and both sizes")
  func message() throws {
    for (limit, words) in [
      (DecompressionLimit.ratio(20), "20 times"), (.absolute(4096), "4096 bytes"),
    ] {
      let error = #expect(throws: RPCError.self) {
        try limit.check(compressed: 123, decompressed: 45678)
      }
      for part in ["123 bytes", "45678 bytes", words] {
        #expect(error?.message.contains(part) == true)
      }
    }
  }

  @Test("C9 messages are checked in order of arrival, and uncompressed ones have no limit")
  func order() throws {
    let sizes = ResponseSizes(id: 1, limit: .ratio(2))
    for (isCompressed, length) in [(true, 100), (false, 1), (true, 1)] {
      sizes.arrived(MessagePrefix(isCompressed: isCompressed, length: length))
    }
    try sizes.check(200)
    try sizes.check(1_000_000)
    #expect(throws: RPCError.self) { try sizes.check(3) }
    // Nothing is known about a message that no handler saw.
    try sizes.check(1_000_000)
  }

  @Test("C9 gRPC's size error becomes RESOURCE_EXHAUSTED, a broken message stays INTERNAL")
  func statuses() {
    func corrected(_ code: Status.Code, _ message: String) -> Status.Code {
      Status(code: code, message: message).corrected.code
    }
    let large =
      "Failed to decode message resourceExhausted: \"Message is too large to decompress.\""
    #expect(corrected(.internalError, large) == .resourceExhausted)
    #expect(corrected(.notFound, large) == .notFound)
    #expect(corrected(.internalError, "Failed to decode message") == .internalError)
    #expect(corrected(.internalError, "the server's resourceExhausted") == .internalError)
    #expect(corrected(.ok, "") == .ok)
  }

  // MARK: Prefixes

  private static let messages = [
    MessagePrefix(isCompressed: true, length: 3), MessagePrefix(isCompressed: false, length: 0),
    MessagePrefix(isCompressed: true, length: 0), MessagePrefix(isCompressed: false, length: 300),
    MessagePrefix(isCompressed: true, length: 1),
  ]

  /// The messages on the wire; their bodies look like prefixes.
  private static let wire: [UInt8] = Self.messages.flatMap { message in
    [message.isCompressed ? 1 : 0, 0, 0, UInt8(message.length >> 8), UInt8(message.length & 0xFF)]
      + [UInt8](repeating: 1, count: message.length)
  }

  @Test("C9 prefixes are found however the bytes are split into two or three parts")
  func cuts() {
    let wire = Self.wire
    for first in 0...wire.count {
      for second in Set([first, first + 1, first + 4, wire.count]) where second <= wire.count {
        var parser = MessagePrefixParser()
        var found: [MessagePrefix] = []
        for part in [wire[..<first], wire[first..<second], wire[second...]] {
          parser.read(ByteBuffer(bytes: part).readableBytesView) { found.append($0) }
        }
        #expect(found == Self.messages, "cut at \(first) and \(second)")
      }
    }
  }

  @Test("C9 prefixes are found byte by byte, each at its last byte")
  func byteByByte() {
    var parser = MessagePrefixParser()
    var found: [(at: Int, MessagePrefix)] = []
    for (index, byte) in Self.wire.enumerated() {
      parser.read(ByteBuffer(bytes: [byte]).readableBytesView) { found.append((index, $0)) }
    }
    #expect(found.map(\.1) == Self.messages)
    #expect(found.map(\.at) == [4, 12, 17, 22, 327])
  }

  @Test("C9 the longest possible message is handled")
  func longest() {
    var parser = MessagePrefixParser()
    var found: [MessagePrefix] = []
    let bytes: [UInt8] = [1, 0xFF, 0xFF, 0xFF, 0xFF, 1, 1, 1, 1, 1]
    parser.read(ByteBuffer(bytes: bytes).readableBytesView) { found.append($0) }
    #expect(found == [MessagePrefix(isCompressed: true, length: 0xFFFF_FFFF)])
  }

  // MARK: The handler

  /// The headers that go out when these are sent.
  private func sent(_ headers: HPACKHeaders, by channel: EmbeddedChannel) throws -> HPACKHeaders? {
    try channel.writeOutbound(HTTP2Frame.FramePayload.headers(.init(headers: headers)))
    guard case .headers(let sent)? = try channel.readOutbound(as: HTTP2Frame.FramePayload.self)
    else { return nil }
    return sent.headers
  }

  private func receive(_ bytes: [UInt8], on channel: EmbeddedChannel) throws {
    try channel.writeInbound(
      HTTP2Frame.FramePayload.data(.init(data: .byteBuffer(ByteBuffer(bytes: bytes)))))
  }

  @Test("C9 the mark leads the handler to its call, and stays on this machine")
  func handler() throws {
    let `guard` = DecompressionGuard()
    let sizes = try #require(`guard`.begin(CallSettings(decompressionLimit: .ratio(2))))
    let channel = EmbeddedChannel(handler: `guard`.handler())
    var metadata: Metadata = ["x-test": "1"]
    sizes.mark(&metadata)
    var headers = HPACKHeaders([(":path", "/echo.Echo/Get")])
    for (key, value) in metadata { headers.add(name: key, value: value.encoded()) }
    #expect(headers.count == 3)
    #expect(try self.sent(headers, by: channel) == [":path": "/echo.Echo/Get", "x-test": "1"])

    try self.receive([1, 0, 0, 0, 3, 9], on: channel)
    try self.receive([9, 9, 0, 0, 0, 0, 0], on: channel)
    #expect(sizes.next() == 3)
    #expect(sizes.next() == nil)
    // The frames pass unchanged.
    for expected in [6, 7] {
      guard case .data(let frame)? = try channel.readInbound(as: HTTP2Frame.FramePayload.self)
      else {
        Issue.record("a frame is missing")
        return
      }
      #expect(frame.data.readableBytes == expected)
    }
  }

  @Test("C9 calls do not see each other's sizes")
  func twoCalls() throws {
    let `guard` = DecompressionGuard()
    let settings = CallSettings(decompressionLimit: .ratio(2))
    let calls = [settings, settings].compactMap { `guard`.begin($0) }
    let channels = calls.map { _ in EmbeddedChannel(handler: `guard`.handler()) }
    for (call, channel) in zip(calls, channels).reversed() {
      var metadata = Metadata()
      call.mark(&metadata)
      let headers = HPACKHeaders(metadata.map { ($0.key, $0.value.encoded()) })
      #expect(try self.sent(headers, by: channel)?.isEmpty == true)
    }
    try self.receive([1, 0, 0, 0, 7], on: channels[0])
    try self.receive([1, 0, 0, 0, 8], on: channels[1])
    #expect(calls.map { $0.next() } == [7, 8])
  }

  @Test(
    "C9 an unknown mark, or one of an ended call, leads nowhere",
    arguments: ["1", "99", "", "-1", "\u{E9}", "18446744073709551616"])
  func strangers(mark: String) throws {
    let `guard` = DecompressionGuard()
    let ended = try #require(`guard`.begin(CallSettings(decompressionLimit: .absolute(0))))
    `guard`.end(ended)
    let channel = EmbeddedChannel(handler: `guard`.handler())
    #expect(try self.sent([DecompressionGuard.key: mark], by: channel)?.isEmpty == true)
    try self.receive([1, 0, 0, 0, 1, 1], on: channel)
    #expect(ended.next() == nil)
  }

  @Test("C9 a call without a limit or algorithms of its own → nothing is marked")
  func unlimited() {
    #expect(DecompressionGuard().begin(CallSettings()) == nil)
  }

  // MARK: On the wire

  @Test("C9 the sizes are those on the wire, and the server does not see the mark")
  func sizes() async throws {
    let words = ["a", String(repeating: "b", count: 100_000), String(repeating: "c", count: 3)]
    let sizes = Mutex<[(compressed: Int, decompressed: Int)]>([])
    let result = try await Self.call("Expand", [words.joined(separator: " ")], limit: .ratio(1)) {
      let compressed = try #require($0.next())
      let decompressed = $1
      sizes.withLock { $0.append((compressed, decompressed)) }
    }
    #expect(result.status?.code == .ok)
    #expect(!result.keysSeen.isEmpty)
    #expect(!result.keysSeen.contains(DecompressionGuard.key))
    let all = sizes.withLock { $0 }
    #expect(all.map(\.decompressed) == [3, 100_004, 5])
    #expect(all[0].compressed > 3)
    #expect(all[1].compressed < 1000)
    #expect(result.bytes == all.reduce(0) { $0 + 5 + $1.compressed })
  }

  @Test(
    "C9 a call whose response exceeds the limit fails",
    arguments: [
      (.ratio(20), false), (.ratio(100_000), true), (.absolute(100_003), false),
      (.absolute(100_004), true),
    ] as [(DecompressionLimit, Bool)])
  func enforced(limit: DecompressionLimit, isAllowed: Bool) async throws {
    let request = String(repeating: "b", count: 100_000)
    let call = { try await Self.call("Get", [request], limit: limit) { try $0.check($1) } }
    if isAllowed {
      #expect(try await call().status?.code == .ok)
    } else {
      await expectCode(.resourceExhausted) { _ = try await call() }
    }
  }

  @Test("C9 uncompressed responses have no limit")
  func uncompressed() async throws {
    let request = String(repeating: "b", count: 100_000)
    let result = try await Self.call("Get", [request], limit: .absolute(1), server: .none) {
      try $0.check($1)
    }
    #expect(result.status?.code == .ok)
  }

  @Test("C9 a response larger than any allowed message fails the same way")
  func bomb() async throws {
    let requests = Array(repeating: String(repeating: "b", count: 1 << 20), count: 5)
    let result = try await Self.call("Collect", requests, limit: .ratio(20)) { _, _ in
      Issue.record("it was let through")
    }
    #expect(result.bytes < 10_000)
    #expect(result.status?.code == .resourceExhausted)
  }

  private struct Outcome {
    /// The number of bytes of messages and their prefixes.
    var bytes: Int
    /// The names of the metadata that the server saw.
    var keysSeen: [String]
    var status: Status?
  }

  /// Makes a call as the network-aware transport does, and passes each message's size to `each`.
  private static func call(
    _ method: String, _ requests: [String], limit: DecompressionLimit,
    server: CompressionAlgorithmSet = .gzip,
    each: @Sendable @escaping (ResponseSizes, Int) throws -> Void
  ) async throws -> Outcome {
    let `guard` = DecompressionGuard()
    let bytes = ByteCounter()
    return try await withEchoServer(compression: server) { port in
      let transport = try HTTP2ClientTransport.Posix(
        target: .ipv4(address: "127.0.0.1", port: port), transportSecurity: .plaintext,
        config: .defaults {
          $0.compression.enabledAlgorithms = .gzip
          $0.channelDebuggingCallbacks.onCreateHTTP2Stream = { channel in
            channel.eventLoop.makeCompletedFuture {
              let pipeline = channel.pipeline.syncOperations
              try pipeline.addHandler(`guard`.handler(), position: .first)
              try pipeline.addHandler(ByteCountHandler(bytes), position: .first)
            }
          }
        })
      return try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask { try await transport.connect() }
        defer { transport.beginGracefulShutdown() }
        let sizes = try #require(`guard`.begin(CallSettings(decompressionLimit: limit)))
        defer { `guard`.end(sizes) }
        return try await transport.withStream(
          descriptor: MethodDescriptor(fullyQualifiedService: "echo.Echo", method: method),
          options: .defaults
        ) { stream, _ in
          var metadata: Metadata = ["x-test": "1"]
          sizes.mark(&metadata)
          try await stream.outbound.write(.metadata(metadata))
          for request in requests {
            try await stream.outbound.write(
              .message(ProtobufSerializer<Words>().serialize(Words(request))))
          }
          await stream.outbound.finish()
          var outcome = Outcome(bytes: 0, keysSeen: [])
          for try await part in stream.inbound {
            switch part {
            case .metadata(let metadata):
              outcome.keysSeen = Array(metadata[stringValues: "seen-keys"])
            case .message(let message):
              try each(sizes, message.withUnsafeBytes { $0.count })
            case .status(let status, _):
              outcome.status = status.corrected
            }
          }
          outcome.bytes = bytes.count.load(ordering: .sequentiallyConsistent)
          return outcome
        }
      }
    }
  }
}

private final class ByteCounter: Sendable {
  let count = Atomic(0)
}

/// Counts the bytes of DATA frames, closer to the wire than the tested handler.
private final class ByteCountHandler: ChannelInboundHandler {
  typealias InboundIn = HTTP2Frame.FramePayload

  private let bytes: ByteCounter

  init(_ bytes: ByteCounter) { self.bytes = bytes }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    if case .data(let frame) = self.unwrapInboundIn(data) {
      self.bytes.count.add(frame.data.readableBytes, ordering: .sequentiallyConsistent)
    }
    context.fireChannelRead(data)
  }
}
