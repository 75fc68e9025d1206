/// Writes the fields of a record: numbers in little-endian order, bytes and texts after their
/// length in 32 bits.
struct FieldWriter {
  private(set) var bytes: [UInt8] = []

  mutating func put(_ number: some FixedWidthInteger) {
    withUnsafeBytes(of: number.littleEndian) { self.bytes += $0 }
  }

  mutating func put(_ flag: Bool) { self.put(flag ? 1 as UInt8 : 0) }

  mutating func put(_ bytes: some Collection<UInt8>) {
    self.put(UInt32(clamping: bytes.count))
    self.bytes += bytes
  }

  mutating func put(_ text: String) { self.put(text.utf8) }

  /// Writes values after their number in 32 bits.
  mutating func put<Value>(_ values: [Value], _ put: (inout Self, Value) -> Void) {
    self.put(UInt32(clamping: values.count))
    for value in values { put(&self, value) }
  }

  /// Writes whether there is a value, and then the value.
  mutating func put<Value>(_ value: Value?, _ put: (inout Self, Value) -> Void) {
    self.put(value != nil)
    if let value { put(&self, value) }
  }
}

/// Reads the fields that a ``FieldWriter`` wrote. The input is not trusted.
struct FieldReader {
  /// The bytes are not valid.
  struct Fault: Error {}

  private var rest: ArraySlice<UInt8>

  init(_ bytes: [UInt8]) { self.rest = bytes[...] }

  var isAtEnd: Bool { self.rest.isEmpty }

  mutating func number<Number: FixedWidthInteger>(
    _: Number.Type = Number.self
  ) throws(Fault) -> Number {
    let size = Number.bitWidth / 8
    guard self.rest.count >= size else { throw Fault() }
    defer { self.rest = self.rest.dropFirst(size) }
    return self.rest.prefix(size).reversed().reduce(0) { $0 << 8 | Number(truncatingIfNeeded: $1) }
  }

  mutating func flag() throws(Fault) -> Bool {
    switch try self.number(UInt8.self) {
    case 0: false
    case 1: true
    default: throw Fault()
    }
  }

  mutating func bytes() throws(Fault) -> [UInt8] {
    let count = Int(try self.number(UInt32.self))
    guard count <= self.rest.count else { throw Fault() }
    defer { self.rest = self.rest.dropFirst(count) }
    return Array(self.rest.prefix(count))
  }

  mutating func text() throws(Fault) -> String { String(decoding: try self.bytes(), as: UTF8.self) }

  mutating func list<Value>(
    _ read: (inout Self) throws(Fault) -> Value
  ) throws(Fault) -> [Value] {
    let count = try self.number(UInt32.self)
    var values: [Value] = []
    // The number is not trusted: each value takes at least one byte.
    guard count <= self.rest.count else { throw Fault() }
    for _ in 0..<count { values.append(try read(&self)) }
    return values
  }

  mutating func optional<Value>(
    _ read: (inout Self) throws(Fault) -> Value
  ) throws(Fault) -> Value? {
    try self.flag() ? try read(&self) : nil
  }

  /// Reads one value of an enumeration.
  mutating func choice<Choice: RawRepresentable<UInt8>>(
    _: Choice.Type = Choice.self
  ) throws(Fault) -> Choice {
    guard let choice = Choice(rawValue: try self.number()) else { throw Fault() }
    return choice
  }
}
