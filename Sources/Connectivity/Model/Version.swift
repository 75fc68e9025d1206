/// The version of this package and of the programs made from it.
package enum Version {
  /// As semver.org writes it: `0.1.0`.
  package static let string = "0.1.0"
}
