import GRPCCore

/// The response headers or trailers that matter to a gRPC client.
struct ResponseHead {
  typealias Bytes = UnsafeBufferPointer<UInt8>

  private var httpStatus: [UInt8] = []
  private var grpcStatus: [UInt8]?
  private var message: [UInt8] = []

  /// Whether the headers contain a status, which ends the call.
  var isLast: Bool { self.grpcStatus != nil }

  mutating func take(_ name: Bytes, _ value: Bytes) {
    if name.elementsEqual(":status".utf8) { self.httpStatus = Array(value) }
    if name.elementsEqual("grpc-status".utf8) { self.grpcStatus = Array(value) }
    if name.elementsEqual("grpc-message".utf8) { self.message = Array(value) }
  }

  /// The status of the call that these headers end.
  var status: Status {
    let http = String(decoding: self.httpStatus, as: UTF8.self)
    guard let grpcStatus else {
      let answer = http.isEmpty ? "" : ", and HTTP's is \(http)"
      return Status(code: .unknown, message: "the response has no status of gRPC's\(answer)")
    }
    let number = Int(String(decoding: grpcStatus, as: UTF8.self))
    return Status(
      code: number.flatMap { Status.Code(rawValue: $0) } ?? .unknown,
      message: percentDecoded(self.message))
  }
}

/// Decodes the Status-Message of gRPC's PROTOCOL-HTTP2.md. Invalid encodings are kept as they are.
private func percentDecoded(_ text: [UInt8]) -> String {
  var bytes: [UInt8] = []
  var rest = text[...]
  while let byte = rest.popFirst() {
    let digits = String(decoding: rest.prefix(2), as: UTF8.self)
    if byte == UInt8(ascii: "%"), digits.count == 2, let value = UInt8(digits, radix: 16) {
      bytes.append(value)
      rest = rest.dropFirst(2)
    } else {
      bytes.append(byte)
    }
  }
  return String(decoding: bytes, as: UTF8.self)
}
