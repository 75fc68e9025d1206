import Glibc
import Testing

@testable import ConndServer

@Suite("WaitSet")
struct WaitSetTests {
  @Test("a set becomes readable when one of its descriptors does")
  func readable() throws {
    var (first, second): ([CInt], [CInt]) = ([-1, -1], [-1, -1])
    try #require(pipe(&first) == 0 && pipe(&second) == 0)
    defer { for descriptor in first + second { close(descriptor) } }
    let set = try #require(WaitSet([first[0], second[0]]))
    func isReadable() -> Bool {
      var state = pollfd(fd: set.fileDescriptor, events: Int16(POLLIN), revents: 0)
      return poll(&state, 1, 0) == 1
    }
    #expect(!isReadable())
    #expect(write(second[1], "!", 1) == 1)
    #expect(isReadable())
  }

  @Test("a set that cannot be created → no descriptor of another thread is closed")
  func failure() async {
    // In its own process, because it would close the descriptors of other tests.
    await #expect(processExitsWith: .success) {
      await withTaskGroup(of: Int.self) { group in
        group.addTask {
          (0..<100_000).reduce(0) { lost, _ in
            let descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC)
            return close(descriptor) == 0 ? lost : lost + 1
          }
        }
        group.addTask {
          (0..<100_000).reduce(0) { sets, _ in WaitSet([-1]) == nil ? sets : sets + 1 }
        }
        for await count in group { #expect(count == 0) }
      }
    }
  }
}
