import Glibc
import TestKit

/// The programs under test, and what lies beside the tests' sources.
enum Programs {
  /// Where the running test bundle is, and what was built with it.
  private static let directory: String = {
    var buffer = [UInt8](repeating: 0, count: 4096)
    let count = readlink("/proc/self/exe", &buffer, buffer.count)
    let executable = String(decoding: buffer.prefix(max(0, count)), as: UTF8.self)
    // In some layouts the bundle is a directory that holds the executable.
    var parts = executable.split(separator: "/").dropLast()
    while let last = parts.last, last.hasSuffix(".xctest") || last == "MacOS" || last == "Contents"
    {
      parts.removeLast()
    }
    return "/" + parts.joined(separator: "/")
  }()

  static let connd = "\(directory)/connd"
  static let connctl = "\(directory)/connctl"
  static let callprobe = "\(directory)/callprobe"

  /// A file in the folder `Tests`.
  static func testFile(_ name: String) -> String {
    let folder = #filePath.split(separator: "/").dropLast(3).joined(separator: "/")
    return "/\(folder)/\(name)"
  }

  /// What a script in the folder `Tests` makes, unless it is there already: the path that it prints.
  static func made(by script: String) throws -> String {
    let output = try Command.run([self.testFile(script)], within: .seconds(600))
    return String(output.prefix { !$0.isNewline })
  }

  /// The command that runs these arguments as a user without rights, save that of reading whatever the programs consist
  /// of: a checkout may be closed to others.
  static func asNobody(_ arguments: [String]) -> [String] {
    [
      "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
      "--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search",
      "--bounding-set=-all,+dac_read_search",
    ] + arguments
  }
}
