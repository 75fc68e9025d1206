import TestKit
import Testing

/// The libraries are meant to build on systems without connd. The tests run only on Linux.
@Suite("Systems other than Linux")
struct PlatformTests {
  @Test(
    "a module that only Linux has is imported under a condition",
    arguments: ["Connectivity", "ConnectivityMonitor", "ConnectivityClient"])
  func imports(module: String) throws {
    let files = try Command.run(["find", Checkout.path("Sources/\(module)"), "-name", "*.swift"])
      .split(separator: "\n").map(String.init)
    #expect(files.count > 10)
    for file in files {
      var depth = 0
      for line in try Command.run(["cat", file]).split(separator: "\n") {
        let words = line.split(separator: " ")
        switch words.first {
        case "#if": depth += 1
        case "#endif": depth -= 1
        default: break
        }
        let isLinux = ["UnixTransport", "CLinux", "CNghttp2", "Glibc"].contains(words.last ?? "")
        #expect(depth > 0 || !words.contains("import") || !isLinux, "\(file): \(line)")
      }
    }
  }
}
