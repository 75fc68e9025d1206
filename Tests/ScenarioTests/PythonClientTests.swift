import Glibc
import TestKit
import Testing

/// A client in another language, with the stubs that its own tools make of the .proto; see `Tests/python/client.py`.
@Suite("Python client", .needsNamespaces, .laboratory)
struct PythonClientTests {
  /// The virtual environment, made when it is not there yet.
  static let environment = Result {
    try Command.run([Programs.testFile("python/setup")], within: .seconds(600))
      .trimmingSuffix { $0.isNewline }
  }

  /// A laboratory that the client expects, with connd running.
  private func laboratory() throws -> Laboratory {
    let lab = try Laboratory()
    try lab.addLink("eth0", "192.0.2.2")
    try lab.namespace.ip("route add default via 192.0.2.1")
    try lab.startConnd()
    return lab
  }

  private func client(_ check: String, in lab: Laboratory) throws -> RunningCommand {
    let environment = try Self.environment.get()
    return try lab.namespace.spawn(
      [
        "\(environment)/bin/python", "-B", Programs.testFile("python/client.py"), lab.socket, check,
      ],
      environment: ["PYTHONPATH": "\(environment)/stubs"])
  }

  @Test(
    "A client in Python gets what the protocol promises",
    arguments: [
      "status", "authorities", "watch", "resume", "invalidations", "guard", "health", "reflection",
      "watch_path", "explain", "links", "history", "invalid",
    ])
  func check(_ name: String) throws {
    let lab = try self.laboratory()
    let client = try self.client(name, in: lab)
    let status = try client.wait(within: .seconds(60))
    #expect(status == 0, "\(client.standardError)")
  }

  @Test("D4 a client that never reads disturbs nobody")
  func idleReader() throws {
    let lab = try self.laboratory()
    let client = try self.client("idle_reader", in: lab)
    let status = try client.wait(within: .seconds(60))
    #expect(status == 0, "\(client.standardError)")
  }

  @Test("connd stops, and every stream says so")
  func stopping() throws {
    let lab = try self.laboratory()
    let client = try self.client("stopping", in: lab)
    try client.line { $0 == "open" }
    #expect(try #require(lab.connd).terminate() == 0)
    let status = try client.wait(within: .seconds(60))
    #expect(status == 0, "\(client.standardError)")
  }

  @Test("D4 a cancelled stream frees its place, though its connection lives on")
  func cancelled() throws {
    let lab = try self.laboratory()
    let client = try self.client("cancelled", in: lab)
    try client.line { $0 == "watching" }
    // Not all that connd said meanwhile found room in the socket; what it says from now on does.
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

extension String {
  fileprivate func trimmingSuffix(while predicate: (Character) -> Bool) -> String {
    String(self.reversed().drop(while: predicate).reversed())
  }
}
