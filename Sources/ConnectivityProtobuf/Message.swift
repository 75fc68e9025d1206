/// A protobuf message. dev/protoc-gen-messages generates the types from the .proto files.
///
/// Unknown fields are ignored, and not kept.
public protocol Message: Equatable, Sendable {
  /// Creates the message without any field.
  init()

  /// Stores a field, if its number is known. A later value replaces an earlier one; embedded
  /// messages are merged, and list elements are appended.
  ///
  /// - Throws: An error if the value is malformed.
  mutating func read(_ field: ProtobufField) throws(ProtobufError)

  /// Writes all fields, in the order of their numbers.
  func write(to writer: inout ProtobufWriter)
}

extension Message {
  /// - Throws: An error if the bytes are malformed.
  public init(serializedBytes bytes: [UInt8]) throws(ProtobufError) {
    try self.init(serializedBytes: bytes[...])
  }

  /// - Throws: An error if the bytes are malformed.
  public init(serializedBytes bytes: ProtobufReader.Bytes) throws(ProtobufError) {
    self.init()
    try self.merge(bytes)
  }

  /// Merges the fields of another encoded message of this type.
  ///
  /// - Throws: An error if the bytes are malformed.
  public mutating func merge(_ bytes: ProtobufReader.Bytes) throws(ProtobufError) {
    try ProtobufReader.read(bytes) { (field) throws(ProtobufError) in try self.read(field) }
  }

  /// Compares the encoded messages. Comparing field by field would need much code in each type.
  public static func == (left: Self, right: Self) -> Bool {
    left.serializedBytes() == right.serializedBytes()
  }

  public func serializedBytes() -> [UInt8] {
    var writer = ProtobufWriter()
    self.write(to: &writer)
    return writer.bytes
  }

  /// Creates a message, and lets `change` set its fields.
  public static func with<Failure: Error>(
    _ change: (inout Self) throws(Failure) -> Void
  ) throws(Failure) -> Self {
    var message = Self()
    try change(&message)
    return message
  }
}

/// An enum of a .proto file. It keeps unknown values, as proto3 demands.
public protocol ProtobufEnum: Hashable, Sendable, CaseIterable {
  init(rawValue: Int)
  var rawValue: Int { get }
}

/// A field that contains a message, which may be absent. The message is on the heap, so that
/// embedded messages do not increase the size of the outer message.
public struct Nested<Value: Message>: Sendable {
  private var values: [Value] = []

  public init() {}

  public var isSet: Bool { !self.values.isEmpty }

  /// The message, or a message without any field if the field is absent.
  public var value: Value {
    get { self.values.first ?? Value() }
    set { self.values = [newValue] }
    // Modifies in place, because a field may occur many times, and a copy each time would take
    // quadratic time.
    _modify {
      if self.values.isEmpty { self.values = [Value()] }
      yield &self.values[0]
    }
  }

  public mutating func clear() { self.values = [] }

  public func write(to writer: inout ProtobufWriter, as field: UInt32) {
    if self.isSet { writer.write(self.values[0], as: field) }
  }
}
