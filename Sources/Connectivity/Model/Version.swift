/// The version of this package and of the programs made from it.
public enum Version {
  /// As semver.org writes it: `0.1.0`.
  public static let string = "0.1.0"
}
