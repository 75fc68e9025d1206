/// The default path of connd's socket.
package enum DefaultSocket {
  /// The system's connd, which its socket unit starts.
  package static let system = "/run/connd/connd.sock"

  /// Returns `CONND_SOCKET` if it is set, or else the system's socket if that exists or the user is
  /// root. Otherwise returns the socket in `XDG_RUNTIME_DIR` if that is set, or else the system's
  /// socket.
  ///
  /// - Parameters:
  ///   - environment: Returns the value of an environment variable. An empty value counts as not
  ///     set.
  ///   - uid: The user's ID.
  ///   - exists: Returns whether a path exists. Clients check the file system. connd has not
  ///     created the socket yet, so it checks whether systemd has set `RUNTIME_DIRECTORY`.
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
