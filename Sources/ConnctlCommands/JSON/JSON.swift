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
    var text = ""
    self.write(to: &text)
    return text
  }

  private func write(to text: inout String) {
    switch self {
    case .null: text += "null"
    case .bool(let value): text += value ? "true" : "false"
    case .number(let number): text += String(number)
    case .string(let string): Self.write(string, to: &text)
    case .array(let elements):
      text += "["
      for (position, element) in elements.enumerated() {
        if position > 0 { text += ", " }
        element.write(to: &text)
      }
      text += "]"
    case .object(let pairs):
      text += "{"
      for (position, pair) in pairs.enumerated() {
        if position > 0 { text += ", " }
        Self.write(pair.key, to: &text)
        text += ": "
        pair.value.write(to: &text)
      }
      text += "}"
    }
  }

  private static func write(_ string: String, to text: inout String) {
    text += "\""
    for scalar in string.unicodeScalars {
      switch scalar {
      case "\"": text += "\\\""
      case "\\": text += "\\\\"
      case "\n": text += "\\n"
      case "\r": text += "\\r"
      case "\t": text += "\\t"
      case "\u{0}"..<"\u{20}", "\u{7F}":
        let digits = String(scalar.value, radix: 16)
        text += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
      default: text.unicodeScalars.append(scalar)
      }
    }
    text += "\""
  }
}
