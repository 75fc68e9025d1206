import Glibc
import TestKit
import Testing

@testable import ConndServer

@Suite("Listening socket")
struct ListeningSocketTests {
  private let directory: TemporaryDirectory
  private var path: String { "\(self.directory.path)/connd.sock" }

  init() throws {
    self.directory = try TemporaryDirectory()
  }

  private func error(opening path: String) -> ListeningError? {
    do throws(ListeningError) {
      _ = try ListeningSocket(path: path)
      return nil
    } catch {
      return error
    }
  }

  @Test("any user may connect, and the path is removed with the socket")
  func opened() throws {
    var socket: ListeningSocket? = try ListeningSocket(path: self.path)
    var file = stat()
    #expect(stat(self.path, &file) == 0)
    #expect(file.st_mode & 0o777 == 0o666)
    #expect(file.st_mode & S_IFMT == S_IFSOCK)
    #expect(socket?.takeDescriptor() != nil)
    #expect(socket?.takeDescriptor() == nil)
    socket = nil
    #expect(access(self.path, F_OK) != 0)
    #expect(access("\(self.path).lock", F_OK) != 0)
  }

  @Test("D2 sockets opened at the same time → any user may connect, and the umask is unchanged")
  func together() async throws {
    await #expect(processExitsWith: .success) {
      let directory = try TemporaryDirectory()
      let before = umask(0o022)
      try await withThrowingTaskGroup(of: Void.self) { group in
        for index in 0..<8 {
          group.addTask {
            for _ in 0..<200 {
              let path = "\(directory.path)/\(index).sock"
              let socket = try ListeningSocket(path: path)
              var file = stat()
              try #require(stat(path, &file) == 0 && file.st_mode & 0o777 == 0o666)
              withExtendedLifetime(socket) {}
            }
          }
        }
        try await group.waitForAll()
      }
      #expect(umask(before) == 0o022)
      withExtendedLifetime(directory) {}
    }
  }

  @Test("a path that a running connd serves is refused, and the error names the process")
  func inUse() throws {
    let first = try ListeningSocket(path: self.path)
    let error = try #require(self.error(opening: self.path))
    #expect(error.description.contains("process \(getpid())"))
    #expect(access(self.path, F_OK) == 0)
    withExtendedLifetime(first) {}
  }

  @Test("another process listens on the path → it is refused, and left alone")
  func foreign() throws {
    let first = try ListeningSocket(path: self.path)
    unlink("\(self.path).lock")
    let error = try #require(self.error(opening: self.path))
    #expect(error.description.contains("process \(getpid())"))
    #expect(access(self.path, F_OK) == 0)
    withExtendedLifetime(first) {}
  }

  @Test("a stale socket is replaced")
  func stale() throws {
    let first = try ListeningSocket(path: self.path)
    // As after a crash: the descriptor is closed, but the path still exists.
    rename(self.path, "\(self.path).kept")
    let descriptor = try #require(first.takeDescriptor())
    close(descriptor)
    let other = "\(self.path).kept"
    // A process that another test is starting may hold a copy of the descriptor for a moment.
    var error = self.error(opening: other)
    let maxWait = Patience(.seconds(10))
    while error != nil, !maxWait.isOver { error = self.error(opening: other) }
    #expect(error == nil)
  }

  @Test("a file that is not a socket is left alone")
  func notASocket() throws {
    let file = try #require(fopen(self.path, "w"))
    fclose(file)
    let error = try #require(self.error(opening: self.path))
    #expect(error.description.contains("is not a socket"))
    #expect(access(self.path, F_OK) == 0)
  }

  @Test("an error names the path and the remedy")
  func advice() throws {
    let error = try #require(self.error(opening: "/nonexistent/deeper/connd.sock"))
    #expect(error.description.contains("/nonexistent/deeper/connd.sock"))
    #expect(error.description.contains("--socket"))
    // No process can create a directory there, not even as root.
    let refused = try #require(self.error(opening: "/sys/connd/connd.sock"))
    #expect(refused.description.hasPrefix("/sys/connd cannot be created: "))
    #expect(refused.description.contains("--socket"))
    let long = "/tmp/" + String(repeating: "x", count: 200)
    #expect(try #require(self.error(opening: long)).description.contains("shorter"))
  }
}
