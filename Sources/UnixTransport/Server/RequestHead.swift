import GRPCCore

/// What of a request's headers matters to a gRPC server.
struct RequestHead {
  /// How many bytes the headers have at most, counted as HPACK does (RFC 7541, 4.1).
  static let longest = 16 << 10

  private var size = 0
  private var method: [UInt8] = []
  private var path: [UInt8] = []
  private var contentType: [UInt8] = []
  private var encoding: [UInt8] = []

  typealias Bytes = UnsafeBufferPointer<UInt8>

  /// Of what is longer than the headers may be nothing is kept.
  mutating func take(_ name: Bytes, _ value: Bytes) {
    self.size += name.count + value.count + 32
    guard self.size <= Self.longest else { return }
    if name.elementsEqual(":path".utf8) { self.path = Array(value) }
    if name.elementsEqual(":method".utf8) { self.method = Array(value) }
    if name.elementsEqual("content-type".utf8) { self.contentType = Array(value) }
    if name.elementsEqual("grpc-encoding".utf8) { self.encoding = Array(value) }
  }

  /// What such a request gets.
  enum Reading {
    case call(MethodDescriptor)
    /// It is no call: so it is answered without a status of gRPC's (PROTOCOL-HTTP2.md).
    case notGRPC(HeaderBlock)
    case refused(HeaderBlock)
  }

  func read() -> Reading {
    guard self.size <= Self.longest else {
      let message = "the headers of a request have at most \(Self.longest) bytes"
      return .refused(.trailersOnly(Status(code: .resourceExhausted, message: message)))
    }
    guard self.method.elementsEqual("POST".utf8) else { return .notGRPC([":status": "405"]) }
    guard self.contentType.starts(with: "application/grpc".utf8) else {
      return .notGRPC([":status": "415"])
    }
    guard self.encoding.isEmpty || self.encoding.elementsEqual("identity".utf8) else {
      let encoding = String(decoding: self.encoding, as: UTF8.self)
      var block = HeaderBlock.trailersOnly(
        Status(code: .unimplemented, message: "grpc-encoding: '\(encoding)' is not known here"))
      block.append("grpc-accept-encoding", "identity")
      return .refused(block)
    }
    let parts = self.path.dropFirst().split(
      separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
    guard self.path.first == UInt8(ascii: "/"), parts.count == 2 else {
      let path = String(decoding: self.path, as: UTF8.self)
      return .refused(
        .trailersOnly(Status(code: .unimplemented, message: "'\(path)' names no method")))
    }
    return .call(
      MethodDescriptor(
        fullyQualifiedService: String(decoding: parts[0], as: UTF8.self),
        method: String(decoding: parts[1], as: UTF8.self)))
  }
}
