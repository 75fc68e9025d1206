/// Where connd's socket is unless somebody says otherwise.
package enum DefaultSocket {
  /// The system's connd, which its socket unit starts.
  package static let system = "/run/connd/connd.sock"

  /// The path of the socket: `CONND_SOCKET`, else the system's, else that of the user's own connd.
  ///
  /// - Parameters:
  ///   - environment: The value of an environment variable; an empty one counts as not set.
  ///   - uid: The user who asks.
  ///   - exists: Whether there is something at a path. A client looks; connd, which is about to make
  ///     the socket, answers whether it was given the directory.
  package static func path(
    environment: (String) -> String?, uid: UInt32, exists: (String) -> Bool
  ) -> String {
    func variable(_ name: String) -> String? {
      environment(name).flatMap { $0.isEmpty ? nil : $0 }
    }
    if let path = variable("CONND_SOCKET") { return path }
    if uid == 0 || exists(self.system) { return self.system }
    return variable("XDG_RUNTIME_DIR").map { "\($0)/connd.sock" } ?? self.system
  }
}
