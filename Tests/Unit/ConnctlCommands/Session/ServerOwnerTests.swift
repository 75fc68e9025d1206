import ConnectivityMonitor
import Glibc
import TestKit
import Testing

@testable import ConnctlCommands

@Suite("Trusted connd")
struct ServerOwnerTests {
  @Test(
    "a connd of root, the caller or the owner of the socket's directory is trusted, another user's is not",
    arguments: [
      (0, 1000, 1000, true), (1000, 1000, 0, true), (990, 1000, 990, true), (990, 0, 990, true),
      (1001, 1000, 0, false), (1001, 0, 0, false), (1001, 1000, nil, false),
      // A container that does not know the machine's users.
      (65534, 1000, 65534, true),
    ] as [(uid_t, uid_t, uid_t?, Bool)])
  func rule(server: uid_t, user: uid_t, owner: uid_t?, isTrusted: Bool) {
    #expect(ServerOwner.isTrusted(server, by: user, inDirectoryOf: owner) == isTrusted)
  }

  @Test("the directory is found through the user's own links, and not through a loop of links")
  func links() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path
    #expect(mkdir("\(path)/own", 0o700) == 0)
    try directory.write("", to: "own/file")
    for (target, name) in [("own", "a"), ("../own/file", "own/b"), ("\(path)/own/b", "c")] {
      #expect(symlink(target, "\(path)/\(name)") == 0)
    }
    #expect(symlink("loop", "\(path)/loop") == 0)
    func owner(_ name: String) -> uid_t? {
      ServerOwner.owner(ofDirectoryOf: "\(path)/\(name)", for: geteuid())
    }
    for name in ["own/file", "a/file", "a/b", "c", "own//../c"] {
      #expect(owner(name) == geteuid(), "\(name)")
    }
    for name in ["loop", "loop/file", "missing/file", "own/missing"] {
      #expect(owner(name) == nil, "\(name)")
    }
  }
}
