import ArgumentParser

extension FixedWidthInteger where Self: UnsignedInteger {
  /// Parses the whole number of an option.
  ///
  /// - Throws: `ValidationError` that names the problem.
  static func reading(_ text: String) throws -> Self {
    if text.hasPrefix("-") { throw ValidationError("it must not be negative") }
    guard !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
      throw ValidationError("it must be a whole number")
    }
    guard let number = Self(text) else { throw ValidationError("it must be at most \(Self.max)") }
    return number
  }
}

extension UInt32 {
  /// Parses a mark in the notation of ip-rule(8).
  static func readingMark(_ text: String) throws -> UInt32 {
    if text.hasPrefix("-") { throw ValidationError("it must not be negative") }
    let isHexadecimal = text.hasPrefix("0x")
    let digits = isHexadecimal ? text.dropFirst(2) : text[...]
    guard digits.first?.isHexDigit == true,
      let mark = UInt32(digits, radix: isHexadecimal ? 16 : 10)
    else { throw ValidationError("“\(text)” is not a mark") }
    return mark
  }
}
