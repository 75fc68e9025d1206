import Glibc
import TestKit
import TestTraits

/// Name servers outside of a laboratory, which answer only on their own link, and the files of a C
/// library that asks them.
final class NameServers {
  private let lab: Laboratory
  private let command: RunningCommand

  /// - Parameters:
  ///   - answer: the address of every name.
  ///   - servers: addresses of the outside host, and their links.
  init(_ lab: Laboratory, answer: String, _ servers: KeyValuePairs<String, String>) throws {
    try TestSize.needsAll("Python")
    self.lab = lab
    self.command = try lab.outside.spawn(
      ["/usr/bin/python3", "-B", Checkout.path("Tests/Programs/python/name_server.py"), answer]
        + servers.map { "\($0.key)=\($0.value)" })
    try self.command.line { $0 == "ready" }
    try lab.directory.write("hosts: files dns\n", to: "nsswitch.conf")
    try lab.directory.write("", to: "resolv.conf")
  }

  deinit { self.command.signal(SIGKILL) }

  /// The command that runs a program with these files.
  var prefix: [String] {
    let mounts = ["resolv.conf", "nsswitch.conf"].map { file in
      "mount --bind \"$0\"/\(file) /etc/\(file)"
    }
    return [
      "unshare", "--mount", "sh", "-c", mounts.joined(separator: " && ") + " && exec \"$@\"",
      self.lab.directory.path,
    ]
  }

  /// Rewrites the resolver's file, as a network manager does.
  ///
  /// - Parameter options: the resolver's options, as in resolv.conf(5).
  func use(_ server: String, options: String? = nil) throws {
    let line = options.map { "options \($0)\n" } ?? ""
    try self.lab.directory.write("nameserver \(server)\n" + line, to: "resolv.conf")
  }
}
