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
