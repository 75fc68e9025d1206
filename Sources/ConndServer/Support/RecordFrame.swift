import Glibc

/// The frame of the records in a log: the length of the bytes, the inverted length, their checksum,
/// and the bytes. The first three are 32-bit little-endian numbers. The inverted length reveals a
/// wrong length, so that a torn record at the end differs from a damaged one.
enum RecordFrame {
  /// The size of the frame without the record's bytes.
  static let overhead = 12

  static func framed(_ bytes: [UInt8]) -> [UInt8] {
    let length = UInt32(bytes.count)
    return octets(length) + octets(~length) + octets(checksum(bytes)) + bytes
  }

  /// Removes and returns the first record. Returns `nil` if it is incomplete, and `.some(nil)` if
  /// it is damaged.
  static func take(_ reader: inout ArraySlice<UInt8>) -> [UInt8]?? {
    guard reader.count >= self.overhead else { return nil }
    let numbers = (0..<3).map { number(reader.dropFirst(4 * $0).prefix(4)) }
    let (length, expected) = (Int(numbers[0]), numbers[2])
    guard numbers[1] == ~numbers[0] else { return .some(nil) }
    guard length <= reader.count - self.overhead else { return nil }
    let bytes = Array(reader.dropFirst(self.overhead).prefix(length))
    reader = reader.dropFirst(self.overhead + length)
    return .some(checksum(bytes) == expected ? bytes : nil)
  }

  /// Writes all of the bytes.
  ///
  /// - Returns: Whether that succeeded. If not, errno has the reason.
  static func write(_ bytes: [UInt8], to descriptor: CInt) -> Bool {
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { return false }
      rest = rest.dropFirst(count)
    }
    return true
  }

  private static func octets(_ number: UInt32) -> [UInt8] {
    withUnsafeBytes(of: number.littleEndian) { Array($0) }
  }

  private static func number(_ bytes: ArraySlice<UInt8>) -> UInt32 {
    bytes.reversed().reduce(0) { $0 << 8 | UInt32($1) }
  }

  /// Returns the FNV-1a hash, which is sufficient to detect a torn record.
  private static func checksum(_ bytes: [UInt8]) -> UInt32 {
    bytes.reduce(2_166_136_261) { ($0 ^ UInt32($1)) &* 16_777_619 }
  }
}
