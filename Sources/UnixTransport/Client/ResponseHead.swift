import GRPCCore

/// What of a response's headers, or of its trailers, matters to a gRPC client.
struct ResponseHead {
  typealias Bytes = UnsafeBufferPointer<UInt8>

  private var httpStatus: [UInt8] = []
  private var grpcStatus: [UInt8]?
  private var message: [UInt8] = []

  /// Whether a status is among them: the call ends with them.
  var isLast: Bool { self.grpcStatus != nil }

  mutating func take(_ name: Bytes, _ value: Bytes) {
    if name.elementsEqual(":status".utf8) { self.httpStatus = Array(value) }
    if name.elementsEqual("grpc-status".utf8) { self.grpcStatus = Array(value) }
    if name.elementsEqual("grpc-message".utf8) { self.message = Array(value) }
  }

  /// Of the call that ends with these headers.
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

/// Status-Message of gRPC's PROTOCOL-HTTP2.md. What is not encoded as it should be, is taken as it is.
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
