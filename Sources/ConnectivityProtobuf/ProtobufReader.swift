/// Reads the fields of a protobuf message (protobuf.dev/programming-guides/encoding).
///
/// A general protobuf library would make connd and connctl 2.6 MB larger, and a program that only
/// monitors 9 MB.
public struct ProtobufReader {
  public typealias Bytes = ArraySlice<UInt8>

  @usableFromInline var rest: Bytes

  @inlinable init(_ bytes: Bytes) { self.rest = bytes }

  /// Passes each field to `take`, in order.
  ///
  /// - Throws: An error if the message is malformed; the errors of `take`.
  @inlinable
  public static func read(
    _ bytes: Bytes, _ take: (ProtobufField) throws(ProtobufError) -> Void
  ) throws(ProtobufError) {
    var reader = Self(bytes)
    while !reader.rest.isEmpty { try take(reader.field()) }
  }

  /// Passes each number of a packed list to `take`, in order.
  static func numbers(in bytes: Bytes, _ take: (UInt64) -> Void) throws(ProtobufError) {
    var reader = Self(bytes)
    while !reader.rest.isEmpty { take(try reader.varint()) }
  }

  @usableFromInline
  mutating func field() throws(ProtobufError) -> ProtobufField {
    let (number, kind) = try self.tag()
    return ProtobufField(number: number, value: try self.value(of: kind, in: number))
  }

  private mutating func tag() throws(ProtobufError) -> (number: Int, kind: UInt32) {
    guard let tag = UInt32(exactly: try self.varint()), tag >> 3 > 0 else {
      throw ProtobufError("a field has no number")
    }
    return (Int(tag >> 3), tag & 7)
  }

  private mutating func value(
    of kind: UInt32, in field: Int
  ) throws(ProtobufError) -> ProtobufField.Value {
    switch kind {
    case 0: return .number(try self.varint())
    case 1: _ = try self.bytes(8)
    case 2:
      guard let length = Int(exactly: try self.varint()) else { throw ProtobufError.truncated }
      return .bytes(try self.bytes(length))
    case 3: try self.skipGroup(field)
    case 5: _ = try self.bytes(4)
    default: throw ProtobufError("a field has an unknown kind")
    }
    return .unknown
  }

  /// The maximum depth of nested groups, as in other implementations.
  private static let maxGroupDepth = 100

  /// Skips a group and the groups within it. No message of connd has groups, but a client may send
  /// unknown fields.
  private mutating func skipGroup(_ field: Int) throws(ProtobufError) {
    var open = [field]
    while let innermost = open.last {
      let (number, kind) = try self.tag()
      switch kind {
      case 3:
        guard open.count < Self.maxGroupDepth else { throw ProtobufError("groups are too deep") }
        open.append(number)
      case 4 where number == innermost: open.removeLast()
      default: _ = try self.value(of: kind, in: number)
      }
    }
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

/// A field of a message, and its value. A value of an unexpected kind counts as an unknown field.
public struct ProtobufField {
  enum Value {
    case number(UInt64)
    case bytes(ProtobufReader.Bytes)
    /// A value of a kind that connd's messages do not use.
    case unknown
  }

  public let number: Int
  let value: Value

  public var uint64: UInt64? { if case .number(let number) = self.value { number } else { nil } }
  public var uint32: UInt32? { self.uint64.map { UInt32(truncatingIfNeeded: $0) } }
  public var int64: Int64? { self.uint64.map { Int64(bitPattern: $0) } }
  public var int32: Int32? { self.uint64.map { Int32(truncatingIfNeeded: $0) } }
  /// A number of the type `sint32`.
  public var sint32: Int32? {
    self.uint32.map { Int32(bitPattern: $0 >> 1) ^ -Int32(bitPattern: $0 & 1) }
  }
  public var bool: Bool? { self.uint64.map { $0 != 0 } }
  /// The bytes of an embedded message.
  public var message: ProtobufReader.Bytes? {
    if case .bytes(let bytes) = self.value { bytes } else { nil }
  }
  public var bytes: [UInt8]? { self.message.map { [UInt8]($0) } }

  /// - Throws: An error if the text is not UTF-8.
  public var string: String? {
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

  public func value<Value: ProtobufEnum>(as: Value.Type = Value.self) -> Value? {
    self.int32.map { Value(rawValue: Int($0)) }
  }

  /// Passes the numbers of a list to `take`. The field contains either one number or all of them.
  public func numbers(_ take: (UInt64) -> Void) throws(ProtobufError) {
    switch self.value {
    case .number(let number): take(number)
    case .bytes(let bytes): try ProtobufReader.numbers(in: bytes, take)
    case .unknown: break
    }
  }
}

/// The reason why a message is malformed.
public struct ProtobufError: Error, Hashable, CustomStringConvertible {
  public let description: String

  public init(_ description: String) { self.description = description }

  static let truncated = ProtobufError("it ends too early")
}
