/// Reads the fields of a protobuf message (protobuf.dev/programming-guides/encoding).
///
/// The library reads only the answers of three calls, so it does not need a general library for
/// messages, which alone would make an application 9 MB larger.
struct ProtobufReader {
  typealias Bytes = ArraySlice<UInt8>

  /// A field and its value. A value of an unexpected kind counts as an unknown field.
  struct Field {
    fileprivate enum Value {
      case number(UInt64)
      case bytes(Bytes)
      case fixed
    }

    let number: Int
    fileprivate let value: Value

    var uint64: UInt64? { if case .number(let number) = self.value { number } else { nil } }
    var uint32: UInt32? { self.uint64.map { UInt32(truncatingIfNeeded: $0) } }
    var int32: Int32? { self.uint64.map { Int32(truncatingIfNeeded: $0) } }
    var int64: Int64? { self.uint64.map { Int64(bitPattern: $0) } }
    var bool: Bool? { self.uint64.map { $0 != 0 } }
    /// The bytes of an embedded message.
    var message: Bytes? { if case .bytes(let bytes) = self.value { bytes } else { nil } }

    /// - Throws: An error if it is not UTF-8.
    var string: String? {
      get throws(ProtobufError) {
        guard let bytes = self.message else { return nil }
        // Most texts are ASCII, and decoding is six times as fast as validating.
        if bytes.allSatisfy({ $0 < 0x80 }) { return String(decoding: bytes, as: UTF8.self) }
        guard let text = String(validating: bytes, as: UTF8.self) else {
          throw ProtobufError("a text is not UTF-8")
        }
        return text
      }
    }
  }

  private var rest: Bytes

  private init(_ bytes: Bytes) { self.rest = bytes }

  /// Passes each field to `take`, in order.
  ///
  /// - Throws: An error if the message is malformed; the errors of `take`.
  static func read(
    _ bytes: Bytes, _ take: (Field) throws(ProtobufError) -> Void
  ) throws(ProtobufError) {
    var reader = Self(bytes)
    while !reader.rest.isEmpty { try take(reader.field()) }
  }

  private mutating func field() throws(ProtobufError) -> Field {
    let tag = try self.varint()
    guard let number = Int(exactly: tag >> 3), number > 0 else {
      throw ProtobufError("a field has no number")
    }
    switch tag & 7 {
    case 0: return Field(number: number, value: .number(try self.varint()))
    case 1: return Field(number: number, value: try self.fixed(8))
    case 2:
      guard let length = Int(exactly: try self.varint()) else { throw ProtobufError.truncated }
      return Field(number: number, value: .bytes(try self.bytes(length)))
    case 5: return Field(number: number, value: try self.fixed(4))
    default: throw ProtobufError("a field has an unknown kind")
    }
  }

  private mutating func fixed(_ length: Int) throws(ProtobufError) -> Field.Value {
    _ = try self.bytes(length)
    return .fixed
  }

  private mutating func bytes(_ length: Int) throws(ProtobufError) -> Bytes {
    guard length <= self.rest.count else { throw ProtobufError.truncated }
    defer { self.rest = self.rest.dropFirst(length) }
    return self.rest.prefix(length)
  }

  private mutating func varint() throws(ProtobufError) -> UInt64 {
    var number: UInt64 = 0
    for shift in stride(from: 0, to: 70, by: 7) {
      guard let byte = self.rest.popFirst() else { throw ProtobufError.truncated }
      number |= UInt64(byte & 0x7F) << UInt64(shift)
      if byte < 0x80 { return number }
    }
    throw ProtobufError("a number is too long")
  }
}

/// Writes the fields of a protobuf message.
struct ProtobufWriter {
  private(set) var bytes: [UInt8] = []

  mutating func put(_ number: Int, _ value: UInt64) {
    self.varint(UInt64(number) << 3)
    self.varint(value)
  }

  mutating func put(_ number: Int, _ value: Bool) { if value { self.put(number, 1) } }

  mutating func put(_ number: Int, _ text: String) { self.put(number, message: Array(text.utf8)) }

  mutating func put(_ number: Int, message: [UInt8]) {
    self.varint(UInt64(number) << 3 | 2)
    self.varint(UInt64(message.count))
    self.bytes += message
  }

  private mutating func varint(_ value: UInt64) {
    var rest = value
    while rest >= 0x80 {
      self.bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
      rest >>= 7
    }
    self.bytes.append(UInt8(rest))
  }
}

/// A malformed message, or one without a necessary field.
struct ProtobufError: Error, Hashable, CustomStringConvertible {
  let description: String

  init(_ description: String) { self.description = "connd's message is malformed: \(description)" }

  static let truncated = ProtobufError("it ends too early")
}
