import GRPCCore

/// The request headers that matter to a gRPC server.
struct RequestHead {
  /// The maximum size of the headers in bytes, counted as in HPACK (RFC 7541, 4.1).
  static let maxSize = 16 << 10

  private var size = 0
  private var method: [UInt8]?
  private var scheme: [UInt8]?
  private var path: [UInt8]?
  private var authority: [UInt8]?
  private var hasFields = false
  private var isMalformed = false
  private var contentType: [UInt8] = []
  private var encoding: [UInt8] = []
  /// The size of the data in bytes, or `nil` if the request does not specify it.
  private(set) var contentLength: Int?

  typealias Bytes = UnsafeBufferPointer<UInt8>

  /// Adds a header. Keeps nothing beyond the maximum size.
  mutating func take(_ name: Bytes, _ value: Bytes) {
    self.size += name.count + value.count + 32
    guard self.size <= Self.maxSize else { return }
    if name.first == UInt8(ascii: ":") {
      self.takePseudoHeader(name, value)
    } else {
      self.takeField(name, value)
    }
  }

  /// Adds a pseudo-header. Each may occur once, before the fields (RFC 9113, 8.3).
  private mutating func takePseudoHeader(_ name: Bytes, _ value: Bytes) {
    let header: WritableKeyPath<RequestHead, [UInt8]?>
    switch String(decoding: name, as: UTF8.self) {
    case ":method": header = \.method
    case ":scheme": header = \.scheme
    case ":path": header = \.path
    case ":authority": header = \.authority
    default: return self.isMalformed = true
    }
    if self.hasFields || self[keyPath: header] != nil { self.isMalformed = true }
    self[keyPath: header] = Array(value)
  }

  /// Adds a field. Names must be in lower case, and connection-specific fields are forbidden (RFC
  /// 9113, 8.2).
  private mutating func takeField(_ name: Bytes, _ value: Bytes) {
    self.hasFields = true
    if name.contains(where: { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) }) {
      self.isMalformed = true
    }
    switch String(decoding: name, as: UTF8.self) {
    case "content-type": self.contentType = Array(value)
    case "grpc-encoding": self.encoding = Array(value)
    case "content-length":
      let length = Int(String(decoding: value, as: UTF8.self))
      if length == nil || length.map({ $0 < 0 }) == true || self.contentLength != nil {
        self.isMalformed = true
      }
      self.contentLength = length
    case "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "":
      self.isMalformed = true
    case "te": if !value.elementsEqual("trailers".utf8) { self.isMalformed = true }
    default: break
    }
  }

  /// The response to a request with these headers.
  enum Reading {
    case call(MethodDescriptor)
    /// Not a gRPC call, so it is answered without a gRPC status (PROTOCOL-HTTP2.md).
    case notGRPC(HeaderBlock)
    case refused(HeaderBlock)
    /// Not a valid HTTP/2 request (RFC 9113, 8.1.1).
    case malformed
  }

  /// Whether the content type is `application/grpc` or `application/grpc+proto`, with or without
  /// parameters. Other formats are not supported; gRPC-Web has other frames (PROTOCOL-HTTP2.md).
  private var isProtobuf: Bool {
    let type = self.contentType.prefix { $0 != UInt8(ascii: ";") && $0 != UInt8(ascii: " ") }
    return type.elementsEqual("application/grpc".utf8)
      || type.elementsEqual("application/grpc+proto".utf8)
  }

  func read() -> Reading {
    guard self.size <= Self.maxSize else {
      let message = "the headers of a request have at most \(Self.maxSize) bytes"
      return .refused(.trailersOnly(Status(code: .resourceExhausted, message: message)))
    }
    guard !self.isMalformed, let method, self.scheme?.isEmpty == false, let path, !path.isEmpty
    else { return .malformed }
    guard method.elementsEqual("POST".utf8) else { return .notGRPC([":status": "405"]) }
    guard self.isProtobuf else { return .notGRPC([":status": "415"]) }
    guard self.encoding.isEmpty || self.encoding.elementsEqual("identity".utf8) else {
      let encoding = String(decoding: self.encoding, as: UTF8.self)
      var block = HeaderBlock.trailersOnly(
        Status(code: .unimplemented, message: "grpc-encoding: '\(encoding)' is not known here"))
      block.append("grpc-accept-encoding", "identity")
      return .refused(block)
    }
    let parts = path.dropFirst().split(
      separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
    guard path.first == UInt8(ascii: "/"), parts.count == 2 else {
      let path = String(decoding: path, as: UTF8.self)
      return .refused(
        .trailersOnly(Status(code: .unimplemented, message: "'\(path)' names no method")))
    }
    return .call(
      MethodDescriptor(
        fullyQualifiedService: String(decoding: parts[0], as: UTF8.self),
        method: String(decoding: parts[1], as: UTF8.self)))
  }
}
