import Connectivity

/// A JSON value (RFC 8259), stored as its text on one line. So no tree is built, and most values
/// need no memory of their own. Objects keep the order of their keys.
package struct JSON: Hashable, Sendable, CustomStringConvertible {
  /// The JSON text on one line.
  package private(set) var description: String

  package struct Pair: Hashable, Sendable {
    package var key: String
    package var value: JSON

    package init(key: String, value: JSON) {
      self.key = key
      self.value = value
    }
  }

  private init(text: String) { self.description = text }

  package static let null = JSON(text: "null")
  package static func bool(_ value: Bool) -> JSON { JSON(text: value ? "true" : "false") }
  package static func number(_ number: UInt64) -> JSON { JSON(text: String(number)) }
  package static func signed(_ number: Int64) -> JSON { JSON(text: String(number)) }

  package static func string(_ text: String) -> JSON {
    var quoted = ""
    quoted.append(quoted: text)
    return JSON(text: quoted)
  }

  package static func array(_ elements: [JSON]) -> JSON {
    var text = "["
    for element in elements {
      if text.utf8.count > 1 { text.append(", ") }
      text.append(element.description)
    }
    text.append("]")
    return JSON(text: text)
  }

  package static func object(_ pairs: [Pair]) -> JSON {
    Self.object(pairs.lazy.map { ($0.key, $0.value) })
  }

  private static func object(_ pairs: some Sequence<(String, JSON)>) -> JSON {
    var text = "{"
    text.reserveCapacity(256)
    for (key, value) in pairs {
      if text.utf8.count > 1 { text.append(", ") }
      text.append(quoted: key)
      text.append(": ")
      text.append(value.description)
    }
    text.append("}")
    return JSON(text: text)
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

  private var isObject: Bool { self.description.utf8.first == UInt8(ascii: "{") }

  /// Returns the object with more pairs appended, or any other value unchanged.
  package func appending(_ more: JSON) -> JSON {
    guard self.isObject, more.isObject, more.description.utf8.count > 2 else { return self }
    if self.description.utf8.count == 2 { return more }
    var text = self.description
    text.removeLast()
    text.append(", ")
    text.append(contentsOf: more.description.dropFirst())
    return JSON(text: text)
  }

  /// Returns the JSON text on one line, followed by the terminator.
  package func line(terminator: String) -> String { self.description + terminator }
}

extension JSON: ExpressibleByDictionaryLiteral, ExpressibleByArrayLiteral,
  ExpressibleByStringLiteral, ExpressibleByNilLiteral, ExpressibleByBooleanLiteral
{
  package init(dictionaryLiteral elements: (String, JSON)...) { self = .object(elements) }
  package init(arrayLiteral elements: JSON...) { self = .array(elements) }
  package init(stringLiteral value: String) { self = .string(value) }
  package init(nilLiteral: ()) { self = .null }
  package init(booleanLiteral value: Bool) { self = .bool(value) }
}

extension String {
  fileprivate mutating func append(quoted text: String) {
    self.append("\"")
    if text.isPlain {
      self.append(text)
    } else {
      for scalar in text.unicodeScalars {
        if Self.needsEscape(scalar) {
          self.append(escaped: scalar)
        } else {
          self.unicodeScalars.append(scalar)
        }
      }
    }
    self.append("\"")
  }

  /// Whether all characters are ASCII and need no escape, as those of most strings.
  private var isPlain: Bool {
    var text = self
    return text.withUTF8 { bytes in
      bytes.allSatisfy { byte in
        byte >= 0x20 && byte < 0x7F && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\")
      }
    }
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
      let digits = String(scalar.value, radix: 16)
      self.append("\\u\(String(repeating: "0", count: 4 - digits.count))\(digits)")
    }
  }
}
