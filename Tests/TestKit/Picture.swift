/// What a screen is to show: a file of `Tests/pictures`, as it looks.
public enum Picture {
  private static let folder =
    "/" + #filePath.split(separator: "/").dropLast(2).joined(separator: "/")

  /// Its lines; none where there is no such file.
  public static func lines(_ name: String) throws -> [String] {
    let text = try Command.run(["cat", "\(Self.folder)/pictures/\(name).txt"])
    return text.split(separator: "\n", omittingEmptySubsequences: false).dropLast().map(String.init)
  }

  /// The same lines in other words: `nil` where they are the picture, else both, to be looked at.
  public static func difference(_ lines: [String], from name: String) throws -> String? {
    let expected = try Self.lines(name)
    guard lines != expected else { return nil }
    return
      "\(name) is\n\(lines.joined(separator: "\n"))\nand is to be\n\(expected.joined(separator: "\n"))"
  }
}
