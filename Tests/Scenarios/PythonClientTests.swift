import Glibc
import TestKit
import TestTraits
import Testing

/// A client in another language, with stubs generated from the .proto by that language's tools. See
/// `Tests/Programs/python/client.py`.
@Suite("Python client", .needsNamespaces, .blocking)
struct PythonClientTests {
  /// The laboratory that the client expects, with connd running.
  private func laboratory(configuration: String = "") throws -> Laboratory {
    let lab = try Laboratory(configuration: configuration)
    try lab.addLink("eth0", "192.0.2.2")
    try lab.namespace.ip("route add default via 192.0.2.1")
    try lab.startConnd()
    return lab
  }

  @Test(
    "A client in Python gets what the protocol promises",
    arguments: [
      "status", "authorities", "watch", "resume", "invalidations", "guard", "health", "reflection",
      "get_path", "watch_path", "explain", "links", "history", "costs", "pages", "complete",
      "invalid",
    ])
  func check(_ name: String) throws {
    // Long enough for a route to return in time on a busy machine.
    let lab = try self.laboratory(
      configuration: name == "invalidations" ? "grace: {route: 5s}\n" : "")
    let client = try lab.python("client.py", name)
    try client.expectSuccess()
  }

  @Test("D4 a client that never reads disturbs no other")
  func idleReader() throws {
    let lab = try self.laboratory()
    let client = try lab.python("client.py", "idle_reader")
    try client.expectSuccess()
  }

  @Test("connd stops → every stream ends with a reason")
  func stopping() throws {
    let lab = try self.laboratory()
    let client = try lab.python("client.py", "stopping")
    try client.line { $0 == "open" }
    #expect(try #require(lab.connd).terminate() == 0)
    try client.expectSuccess()
  }

  @Test("D4 a cancelled stream frees its place, though its connection lives on")
  func cancelled() throws {
    let lab = try self.laboratory()
    let client = try lab.python("client.py", "cancelled")
    try client.line { $0 == "watching" }
    // Some of connd's status lines were lost because the socket was full; later ones fit.
    lab.notifications.discard()
    try lab.namespace.ip("route del default")
    try lab.notifications.variable { $0 == "STATUS=none, 50 subscribers" }
    try lab.namespace.ip("route add default via 192.0.2.1")
    try client.line { $0 == "cancelled" }
    lab.notifications.discard()
    try lab.namespace.ip("route del default")
    try lab.notifications.variable { $0 == "STATUS=none, 0 subscribers" }
    client.signal(SIGKILL)
  }
}
