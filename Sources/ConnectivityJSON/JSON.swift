import Connectivity

/// A JSON value (RFC 8259). Objects keep the order of their keys.
package enum JSON: Hashable, Sendable {
  case null
  case bool(Bool)
  case number(UInt64)
  case signed(Int64)
  case string(String)
  case array([JSON])
  case object([Pair])

  package struct Pair: Hashable, Sendable {
    package var key: String
    package var value: JSON

    package init(key: String, value: JSON) {
      self.key = key
      self.value = value
    }
  }
}

extension JSON {
  package static func string(_ text: String?) -> JSON { text.map { .string($0) } ?? .null }
  package static func number(_ number: (some UnsignedInteger)?) -> JSON {
    number.map { .number(UInt64($0)) } ?? .null
  }
  package static func number(_ number: Int32?) -> JSON {
    number.map { .signed(Int64($0)) } ?? .null
  }

  /// Returns the object with more pairs appended, or any other value unchanged.
  package func appending(_ more: JSON) -> JSON {
    guard case .object(let pairs) = self, case .object(let others) = more else { return self }
    return .object(pairs + others)
  }
}

extension JSON: ExpressibleByDictionaryLiteral, ExpressibleByArrayLiteral,
  ExpressibleByStringLiteral, ExpressibleByNilLiteral, ExpressibleByBooleanLiteral
{
  package init(dictionaryLiteral elements: (String, JSON)...) {
    self = .object(elements.map { Pair(key: $0, value: $1) })
  }

  package init(arrayLiteral elements: JSON...) { self = .array(elements) }
  package init(stringLiteral value: String) { self = .string(value) }
  package init(nilLiteral: ()) { self = .null }
  package init(booleanLiteral value: Bool) { self = .bool(value) }
}

extension JSON: CustomStringConvertible {
  /// The JSON text on one line, without a newline at the end.
  package var description: String { self.line(terminator: "") }

  /// Returns the JSON text on one line, followed by the terminator.
  package func line(terminator: StaticString) -> String {
    var output = Output()
    self.write(to: &output)
    output.append(terminator)
    return output.text
  }

  private func write(to output: inout Output) {
    switch self {
    case .null: output.append("null")
    case .bool(let value): output.append(value ? "true" : "false")
    case .number(let number): output.append(plain: String(number))
    case .signed(let number): output.append(plain: String(number))
    case .string(let string): output.append(quoted: string)
    case .array(let elements):
      output.append("[")
      for (position, element) in elements.enumerated() {
        if position > 0 { output.append(", ") }
        element.write(to: &output)
      }
      output.append("]")
    case .object(let pairs):
      output.append("{")
      var isFirst = true
      for pair in pairs {
        if !isFirst { output.append(", ") }
        isFirst = false
        output.append(quoted: pair.key)
        output.append(": ")
        pair.value.write(to: &output)
      }
      output.append("}")
    }
  }
}

/// A growing buffer of UTF-8. An array would check uniqueness and bounds for each of the hundreds
/// of pieces of a line.
private struct Output: ~Copyable {
  private var buffer = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: 2048)
  private var count = 0

  deinit { self.buffer.deallocate() }

  var text: String { String(decoding: self.buffer[..<self.count], as: UTF8.self) }

  /// Makes room for more bytes.
  private mutating func reserve(_ more: Int) {
    guard self.buffer.count - self.count < more else { return }
    let capacity = max(2 * self.buffer.count, self.count + more)
    let larger = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: capacity)
    _ = larger.initialize(fromContentsOf: self.buffer[..<self.count])
    self.buffer.deallocate()
    self.buffer = larger
  }

  private mutating func append(_ byte: UInt8) {
    self.reserve(1)
    self.buffer[self.count] = byte
    self.count += 1
  }

  private mutating func append(_ bytes: UnsafeBufferPointer<UInt8>) {
    self.reserve(bytes.count)
    guard let source = bytes.baseAddress, let target = self.buffer.baseAddress else { return }
    (target + self.count).update(from: source, count: bytes.count)
    self.count += bytes.count
  }

  mutating func append(_ text: StaticString) {
    text.withUTF8Buffer { self.append($0) }
  }

  mutating func append(plain text: String) {
    var text = text
    text.withUTF8 { self.append($0) }
  }

  mutating func append(quoted text: String) {
    var text = text
    // Most strings need no escapes.
    let isPlain = text.withUTF8 { bytes in
      guard Self.arePlain(UnsafeRawBufferPointer(bytes)) else { return false }
      self.reserve(bytes.count + 2)
      guard let target = self.buffer.baseAddress else { return true }
      target[self.count] = UInt8(ascii: "\"")
      if let source = bytes.baseAddress {
        (target + self.count + 1).update(from: source, count: bytes.count)
      }
      target[self.count + bytes.count + 1] = UInt8(ascii: "\"")
      self.count += bytes.count + 2
      return true
    }
    if !isPlain { self.append(escaping: text) }
  }

  private mutating func append(escaping text: String) {
    self.append(UInt8(ascii: "\""))
    for scalar in text.unicodeScalars {
      if Self.needsEscape(scalar) {
        self.append(escaped: scalar)
      } else {
        for byte in UTF8.encode(scalar) ?? UTF8.encodedReplacementCharacter { self.append(byte) }
      }
    }
    self.append(UInt8(ascii: "\""))
  }

  /// Whether all bytes are ASCII characters that need no escape. Tests eight at a time.
  private static func arePlain(_ bytes: UnsafeRawBufferPointer) -> Bool {
    let whole = bytes.count & ~7
    for offset in stride(from: 0, to: whole, by: 8) {
      let eight = bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
      let special =
        eight | Self.lows(eight, below: 0x20) | Self.lows(eight ^ Self.each(0x7F), below: 1)
        | Self.lows(eight ^ Self.each(UInt64(UInt8(ascii: "\""))), below: 1)
        | Self.lows(eight ^ Self.each(UInt64(UInt8(ascii: "\\"))), below: 1)
      if special & Self.each(0x80) != 0 { return false }
    }
    return bytes[whole...].allSatisfy { byte in
      byte >= 0x20 && byte < 0x7F && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\")
    }
  }

  /// Returns a word of eight equal bytes.
  private static func each(_ byte: UInt64) -> UInt64 { byte &* 0x0101_0101_0101_0101 }

  /// Returns a word with the high bit of some byte set only if a byte of `eight` is less than the
  /// limit. The limit is at most 128 (Bit Twiddling Hacks, hasless).
  private static func lows(_ eight: UInt64, below limit: UInt64) -> UInt64 {
    (eight &- Self.each(limit)) & ~eight
  }

  private static func needsEscape(_ scalar: Unicode.Scalar) -> Bool {
    scalar.isUnprintable || scalar == "\"" || scalar == "\\"
  }

  /// Appends the escape of a character. Four hex digits suffice, because no escaped character is
  /// above U+FFFF.
  private mutating func append(escaped scalar: Unicode.Scalar) {
    switch scalar {
    case "\"": self.append("\\\"")
    case "\\": self.append("\\\\")
    case "\n": self.append("\\n")
    case "\r": self.append("\\r")
    case "\t": self.append("\\t")
    default:
      self.append("\\u")
      for shift in [12, 8, 4, 0] {
        let digit = UInt8(truncatingIfNeeded: scalar.value >> UInt32(shift)) & 0xF
        self.append(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10)
      }
    }
  }
}
