import TestKit

/// The programs under test, and files beside the tests' sources.
enum Programs {
  static let connd = "\(buildDirectory)/connd"
  static let connctl = "\(buildDirectory)/connctl"
  static let callprobe = "\(buildDirectory)/callprobe"

  /// A file in the folder `Tests`.
  static func testFile(_ name: String) -> String {
    let folder = #filePath.split(separator: "/").dropLast(3).joined(separator: "/")
    return "/\(folder)/\(name)"
  }

  /// The output of a script in the folder `Tests`, built if it is missing. The script prints its
  /// path.
  static func made(by script: String) throws -> String {
    let output = try Command.run([self.testFile(script)], within: .seconds(600))
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
