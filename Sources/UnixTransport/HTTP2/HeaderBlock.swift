import CNghttp2
import GRPCCore

/// Header fields in the form that nghttp2 expects.
struct HeaderBlock: Sendable {
  private var bytes: [UInt8] = []
  private var lengths: [(name: Int, value: Int)] = []

  init(_ fields: KeyValuePairs<String, String>) {
    for (name, value) in fields { self.append(name, value) }
  }

  mutating func append(_ name: String, _ value: String) {
    self.bytes += name.utf8
    self.bytes += value.utf8
    self.lengths.append((name.utf8.count, value.utf8.count))
  }

  /// Calls `body` with the fields, which nghttp2 copies.
  func withUnsafeFields<Result>(_ body: (UnsafeBufferPointer<nghttp2_nv>) -> Result) -> Result {
    self.bytes.withUnsafeBufferPointer { bytes in
      // nghttp2 does not write to the bytes.
      var next = UnsafeMutablePointer(mutating: bytes.baseAddress)
      let fields = self.lengths.map { lengths in
        let name = next
        let value = next?.advanced(by: lengths.name)
        next = value?.advanced(by: lengths.value)
        return nghttp2_nv(
          name: name, value: value, namelen: lengths.name, valuelen: lengths.value,
          flags: UInt8(NGHTTP2_NV_FLAG_NONE.rawValue))
      }
      return fields.withUnsafeBufferPointer(body)
    }
  }
}

extension HeaderBlock {
  static let response: HeaderBlock = [":status": "200", "content-type": "application/grpc"]

  /// Returns the trailers of a call after its response has begun.
  static func trailers(_ status: Status) -> HeaderBlock {
    var block = HeaderBlock([:])
    block.append(status)
    return block
  }

  /// Returns the headers that end a call without a response.
  static func trailersOnly(_ status: Status) -> HeaderBlock {
    var block = HeaderBlock.response
    block.append(status)
    return block
  }

  private mutating func append(_ status: Status) {
    self.append("grpc-status", "\(status.code.rawValue)")
    if !status.message.isEmpty { self.append("grpc-message", percentEncoded(status.message)) }
  }
}

extension HeaderBlock: ExpressibleByDictionaryLiteral {
  init(dictionaryLiteral fields: (String, String)...) {
    for (name, value) in fields { self.append(name, value) }
  }
}

/// The maximum length of an encoded message in bytes. A message may quote client input of any
/// length. Most clients accept headers of 8 KiB in total (PROTOCOL-HTTP2.md), and nghttp2 sends at
/// most 64 KiB.
private let maxMessage = 4096

/// Encodes the Status-Message of gRPC's PROTOCOL-HTTP2.md. Bytes that a header cannot contain
/// become `%` and two digits. Long texts are cut.
private func percentEncoded(_ text: String) -> String {
  var encoded = ""
  for byte in text.utf8 where encoded.utf8.count < maxMessage {
    if (0x20...0x7E).contains(byte), byte != UInt8(ascii: "%") {
      encoded.unicodeScalars.append(Unicode.Scalar(byte))
    } else {
      let digits = String(byte, radix: 16, uppercase: true)
      encoded += digits.count == 1 ? "%0\(digits)" : "%\(digits)"
    }
  }
  return encoded
}
