/// The files of the checkout that the tests were built from.
public enum Checkout {
  private static let root =
    "/" + #filePath.split(separator: "/").dropLast(4).joined(separator: "/")

  /// The path of a file, whose name begins at the top level.
  public static func path(_ name: String) -> String { "\(Self.root)/\(name)" }
}
