import CLinux
package import Connectivity

extension Version {
  /// The version with the commit, as packages have it: `0.1.0~git20261128101500.5f696ff`. A debug
  /// build has only the version (``string``).
  package static let built: String = {
    let text = String(cString: clinux_built_version())
    return text.isEmpty ? Self.string : text
  }()
}
