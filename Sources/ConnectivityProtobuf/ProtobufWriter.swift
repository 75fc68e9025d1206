/// Writes the fields of a protobuf message into one array
/// (protobuf.dev/programming-guides/encoding). Fields with their default value are left out, unless
/// they have presence.
public struct ProtobufWriter {
  public private(set) var bytes: [UInt8] = []

  public init(reserving capacity: Int = 0) { self.bytes.reserveCapacity(capacity) }

  // MARK: - Fields without presence

  public mutating func write(_ value: UInt64, as field: UInt32) {
    if value != 0 { self.write(present: value, as: field) }
  }

  /// Writes a number of the type `int32` or `int64`.
  public mutating func write(_ value: Int64, as field: UInt32) {
    self.write(UInt64(bitPattern: value), as: field)
  }

  public mutating func write(_ value: Bool, as field: UInt32) {
    if value { self.write(present: true, as: field) }
  }

  public mutating func write(_ text: String, as field: UInt32) {
    if !text.isEmpty { self.write(present: text, as: field) }
  }

  public mutating func write(_ value: some ProtobufEnum, as field: UInt32) {
    self.write(Int64(value.rawValue), as: field)
  }

  // MARK: - Fields with presence, and elements of lists

  public mutating func write(present value: UInt64, as field: UInt32) {
    self.append(UInt64(field << 3))
    self.append(value)
  }

  public mutating func write(present value: Int64, as field: UInt32) {
    self.write(present: UInt64(bitPattern: value), as: field)
  }

  /// Writes a number of the type `sint32`.
  public mutating func write(presentSigned value: Int32, as field: UInt32) {
    self.write(present: UInt64(UInt32(bitPattern: value << 1 ^ value >> 31)), as: field)
  }

  public mutating func write(present value: Bool, as field: UInt32) {
    self.write(present: value ? 1 as UInt64 : 0, as: field)
  }

  public mutating func write(present value: some ProtobufEnum, as field: UInt32) {
    self.write(present: Int64(value.rawValue), as: field)
  }

  public mutating func write(present text: String, as field: UInt32) {
    self.append(UInt64(field << 3 | 2))
    self.append(UInt64(text.utf8.count))
    self.bytes.append(contentsOf: text.utf8)
  }

  /// Writes bytes, or an embedded message that is already encoded.
  public mutating func write(present bytes: [UInt8], as field: UInt32) {
    self.append(UInt64(field << 3 | 2))
    self.append(UInt64(bytes.count))
    self.bytes += bytes
  }

  /// Writes a list of numbers as one field, if it is not empty.
  public mutating func write(packed values: [Int64], as field: UInt32) {
    guard !values.isEmpty else { return }
    let place = self.beginBytes(field)
    for value in values { self.append(UInt64(bitPattern: value)) }
    self.endBytes(at: place)
  }

  /// Writes an embedded message.
  public mutating func write(_ message: some Message, as field: UInt32) {
    let place = self.beginBytes(field)
    message.write(to: &self)
    self.endBytes(at: place)
  }

  /// Writes an embedded message.
  public mutating func message(as field: UInt32, _ write: (inout ProtobufWriter) -> Void) {
    let place = self.beginBytes(field)
    write(&self)
    self.endBytes(at: place)
  }

  /// Begins a field before its length is known. Returns the index of the length.
  private mutating func beginBytes(_ field: UInt32) -> Int {
    self.append(UInt64(field << 3 | 2))
    // The length usually fits into one byte.
    self.bytes.append(0)
    return self.bytes.count - 1
  }

  private mutating func endBytes(at place: Int) {
    var length = self.bytes.count - place - 1
    var next = place
    while length >= 0x80 {
      self.bytes[next] = UInt8(truncatingIfNeeded: length) | 0x80
      length >>= 7
      next += 1
      self.bytes.insert(0, at: next)
    }
    self.bytes[next] = UInt8(length)
  }

  private mutating func append(_ number: UInt64) {
    var rest = number
    while rest >= 0x80 {
      self.bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
      rest >>= 7
    }
    self.bytes.append(UInt8(rest))
  }
}
