import TestKit
import TestTraits

/// The programs under test, and the programs that the tests build.
enum Programs {
  static let connd = "\(buildDirectory)/connd"
  static let connctl = "\(buildDirectory)/connctl"
  static let multipath = "\(buildDirectory)/connd-multipath"
  /// Calls and servers with the Swift library.
  static var callprobe: String {
    get throws {
      try TestSize.needsAll("gRPC's own transport")
      return "\(buildDirectory)/callprobe"
    }
  }

  /// The output of a script of the checkout, built if it is missing. The script prints its path.
  static func made(by script: String) throws -> String {
    try TestSize.needsAll("clients in other languages")
    let output = try Command.run([Checkout.path(script)], within: .seconds(600))
    return String(output.prefix { !$0.isNewline })
  }

  /// The command that runs these arguments as an unprivileged user, who may only read the programs'
  /// files: a checkout may be closed to others.
  static func asNobody(_ arguments: [String]) -> [String] {
    [
      "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
      "--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search",
      "--bounding-set=-all,+dac_read_search",
    ] + arguments
  }
}
