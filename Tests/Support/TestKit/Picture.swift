/// The expected contents of a screen: a file of `Tests/Fixtures/pictures`.
public enum Picture {
  /// Its lines; empty if the file does not exist.
  public static func lines(_ name: String) throws -> [String] {
    let text = try Command.run(["cat", Checkout.path("Tests/Fixtures/pictures/\(name).txt")])
    return text.split(separator: "\n", omittingEmptySubsequences: false).dropLast().map(String.init)
  }

  /// Compares lines with the picture: returns `nil` if they are equal, otherwise both for
  /// inspection.
  public static func difference(_ lines: [String], from name: String) throws -> String? {
    let expected = try Self.lines(name)
    guard lines != expected else { return nil }
    return
      "\(name) is\n\(lines.joined(separator: "\n"))\nand is to be\n\(expected.joined(separator: "\n"))"
  }
}
