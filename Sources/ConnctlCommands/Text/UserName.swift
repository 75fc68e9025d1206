import Glibc

/// The names of users.
enum UserName {
  /// Returns the name of the user in connd's text `uid 1000`, or the text if the user is unknown.
  static func inText(_ text: String) -> String {
    let prefix = "uid "
    guard text.hasPrefix(prefix), let uid = uid_t(text.dropFirst(prefix.count)) else { return text }
    return self.name(of: uid) ?? text
  }

  /// Returns the name in the user database (passwd(5)), or `nil` if the user is unknown.
  static func name(of uid: uid_t) -> String? {
    var entry = passwd()
    var result: UnsafeMutablePointer<passwd>?
    var buffer = [CChar](repeating: 0, count: 1 << 14)
    return buffer.withUnsafeMutableBufferPointer { bytes in
      guard let base = bytes.baseAddress,
        getpwuid_r(uid, &entry, base, bytes.count, &result) == 0, result != nil,
        let name = entry.pw_name
      else { return nil }
      return String(cString: name)
    }
  }
}
