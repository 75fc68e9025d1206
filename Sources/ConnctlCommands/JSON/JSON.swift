/// A JSON value (RFC 8259) whose objects keep the order of their keys.
enum JSON: Hashable, Sendable {
  case null
  case bool(Bool)
  case number(UInt64)
  case string(String)
  case array([JSON])
  case object([Pair])

  struct Pair: Hashable, Sendable {
    var key: String
    var value: JSON
  }
}

extension JSON {
  static func string(_ text: String?) -> JSON { text.map { .string($0) } ?? .null }
  static func number(_ number: (some UnsignedInteger)?) -> JSON {
    number.map { .number(UInt64($0)) } ?? .null
  }

  /// The object with more pairs after its own; other values as they are.
  func appending(_ more: JSON) -> JSON {
    guard case .object(let pairs) = self, case .object(let others) = more else { return self }
    return .object(pairs + others)
  }
}

extension JSON: ExpressibleByDictionaryLiteral, ExpressibleByArrayLiteral,
  ExpressibleByStringLiteral, ExpressibleByNilLiteral, ExpressibleByBooleanLiteral
{
  init(dictionaryLiteral elements: (String, JSON)...) {
    self = .object(elements.map { Pair(key: $0, value: $1) })
  }

  init(arrayLiteral elements: JSON...) { self = .array(elements) }
  init(stringLiteral value: String) { self = .string(value) }
  init(nilLiteral: ()) { self = .null }
  init(booleanLiteral value: Bool) { self = .bool(value) }
}

extension JSON: CustomStringConvertible {
  /// One line, without a newline at its end.
  var description: String {
    var text: [UInt8] = []
    text.reserveCapacity(1024)
    self.write(to: &text)
    return String(decoding: text, as: UTF8.self)
  }

  // Bytes, not a String: appending to one scalar by scalar costs more than all the rest that `connctl watch` does for
  // an event.
  private func write(to text: inout [UInt8]) {
    switch self {
    case .null: text += "null".utf8
    case .bool(let value): text += (value ? "true" : "false").utf8
    case .number(let number): text += String(number).utf8
    case .string(let string): Self.write(string, to: &text)
    case .array(let elements):
      text.append(UInt8(ascii: "["))
      for (position, element) in elements.enumerated() {
        if position > 0 { text += ", ".utf8 }
        element.write(to: &text)
      }
      text.append(UInt8(ascii: "]"))
    case .object(let pairs):
      text.append(UInt8(ascii: "{"))
      for (position, pair) in pairs.enumerated() {
        if position > 0 { text += ", ".utf8 }
        Self.write(pair.key, to: &text)
        text += ": ".utf8
        pair.value.write(to: &text)
      }
      text.append(UInt8(ascii: "}"))
    }
  }

  /// What must be escaped is ASCII, and no byte of a longer scalar is.
  private static func write(_ string: String, to text: inout [UInt8]) {
    var string = string
    text.append(UInt8(ascii: "\""))
    string.withUTF8 { bytes in
      var plain = 0
      for (position, byte) in bytes.enumerated() where Self.needsEscape(byte) {
        text += bytes[plain..<position]
        Self.escape(byte, to: &text)
        plain = position + 1
      }
      text += bytes[plain...]
    }
    text.append(UInt8(ascii: "\""))
  }

  @inline(__always)
  private static func needsEscape(_ byte: UInt8) -> Bool {
    byte < 0x20 || byte == 0x7F || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\")
  }

  private static func escape(_ byte: UInt8, to text: inout [UInt8]) {
    switch byte {
    case UInt8(ascii: "\""): text += "\\\"".utf8
    case UInt8(ascii: "\\"): text += "\\\\".utf8
    case UInt8(ascii: "\n"): text += "\\n".utf8
    case UInt8(ascii: "\r"): text += "\\r".utf8
    case UInt8(ascii: "\t"): text += "\\t".utf8
    default:
      let digits = String(byte, radix: 16)
      text += "\\u\(String(repeating: "0", count: 4 - digits.count))\(digits)".utf8
    }
  }
}
