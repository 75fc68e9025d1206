/// Writes a protobuf message into one array (protobuf.dev/programming-guides/encoding). Fields with
/// their default value are left out, like those without presence in proto3.
struct MessageWriter {
  private(set) var bytes: [UInt8] = []

  init(reserving capacity: Int) { self.bytes.reserveCapacity(capacity) }

  /// Writes a number, or an enum's number.
  mutating func write(_ value: UInt64, as field: UInt8) {
    if value != 0 { self.write(present: value, as: field) }
  }

  /// Writes a field with presence, even if it is 0.
  mutating func write(present value: UInt64, as field: UInt8) {
    self.bytes.append(field << 3)
    self.append(varint: value)
  }

  mutating func write(_ value: Bool, as field: UInt8) { self.write(value ? 1 : 0, as: field) }

  mutating func write(_ text: String, as field: UInt8) {
    if !text.isEmpty { self.write(present: text, as: field) }
  }

  /// Writes a text with presence, or an element of a list, even if it is empty.
  mutating func write(present text: String, as field: UInt8) {
    self.bytes.append(field << 3 | 2)
    self.append(varint: UInt64(text.utf8.count))
    self.bytes.append(contentsOf: text.utf8)
  }

  /// Writes a message within this one.
  mutating func message(as field: UInt8, _ write: (inout MessageWriter) -> Void) {
    self.bytes.append(field << 3 | 2)
    // The length is known afterwards. It usually fits into one byte.
    let place = self.bytes.count
    self.bytes.append(0)
    write(&self)
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

  private mutating func append(varint value: UInt64) {
    var rest = value
    while rest >= 0x80 {
      self.bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
      rest >>= 7
    }
    self.bytes.append(UInt8(rest))
  }
}
