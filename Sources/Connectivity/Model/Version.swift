/// The version of this package and of the programs made from it.
package enum Version {
  /// The version in the format of semver.org: `0.1.0`.
  package static let string = "0.1.0"
}
