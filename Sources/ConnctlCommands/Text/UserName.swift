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
    self.look({ getpwuid_r(uid, $0, $1, $2, $3) }) { $0.pw_name.map { String(cString: $0) } }
  }

  /// Returns the number of a user, or `nil` if the name is unknown.
  static func number(of name: String) -> uid_t? {
    self.look({ getpwnam_r(name, $0, $1, $2, $3) }) { $0.pw_uid }
  }

  private typealias Lookup = (
    UnsafeMutablePointer<passwd>, UnsafeMutablePointer<CChar>, Int,
    UnsafeMutablePointer<UnsafeMutablePointer<passwd>?>
  ) -> CInt

  private static func look<Value>(_ find: Lookup, _ read: (passwd) -> Value?) -> Value? {
    var entry = passwd()
    var result: UnsafeMutablePointer<passwd>?
    var buffer = [CChar](repeating: 0, count: 1 << 14)
    return buffer.withUnsafeMutableBufferPointer { bytes in
      guard let base = bytes.baseAddress, find(&entry, base, bytes.count, &result) == 0,
        result != nil
      else { return nil }
      return read(entry)
    }
  }
}
