import Glibc
import TestKit
import Testing

@testable import LinuxSupport

@Suite("Files that connd creates for users")
struct NewFileTests {
  private let directory: TemporaryDirectory

  init() throws { self.directory = try TemporaryDirectory() }

  private func isTaken(_ name: String) -> Bool {
    do throws(SystemError) {
      close(try newFile("\(self.directory.path)/\(name)"))
      return true
    } catch {
      #expect(error.code == EEXIST)
      return false
    }
  }

  @Test("a new file, or an empty one that only this user can read → it is written")
  func taken() throws {
    #expect(self.isTaken("new"))
    var status = stat()
    #expect(stat("\(self.directory.path)/new", &status) == 0 && status.st_mode & 0o777 == 0o600)
    #expect(self.isTaken("new"))
  }

  @Test("a file that another user may have put there → it is refused")
  func refused() throws {
    try self.directory.write("mine", to: "full")
    try self.directory.write("", to: "public")
    chmod("\(self.directory.path)/public", 0o666)
    #expect(self.isTaken("empty"))
    for (target, name) in [("elsewhere", "dangling"), ("empty", "link")] {
      #expect(symlink("\(self.directory.path)/\(target)", "\(self.directory.path)/\(name)") == 0)
    }
    #expect(mkfifo("\(self.directory.path)/pipe", 0o600) == 0)
    for name in ["full", "public", "dangling", "link", "pipe", "."] {
      #expect(!self.isTaken(name), "\(name)")
    }
    #expect(access("\(self.directory.path)/elsewhere", F_OK) != 0)
    #expect(Glibc.link("\(self.directory.path)/empty", "\(self.directory.path)/second") == 0)
    #expect(!self.isTaken("empty"))
    if getuid() == 0 {
      #expect(self.isTaken("foreign"))
      #expect(chown("\(self.directory.path)/foreign", 65534, 65534) == 0)
      #expect(!self.isTaken("foreign"))
    }
  }
}
