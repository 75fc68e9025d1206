import Glibc
import TestKit
import TestTraits
import Testing

/// A client built with grpc-go, which has its own transport. See `Tests/Programs/go/client.go`.
@Suite("Go client", .needsNamespaces, .blocking)
struct GoClientTests {
  private static let program = Result { try Programs.made(by: "Tests/Programs/go/build") }

  /// A laboratory with connd running, and the client.
  private func start(_ arguments: String...) throws -> (Laboratory, RunningCommand) {
    let lab = try Laboratory()
    try lab.addLink("eth0", "192.0.2.2")
    try lab.namespace.ip("route add default via 192.0.2.1")
    try lab.start()
    let client = try lab.namespace.spawn(
      [try Self.program.get()] + arguments, environment: ["CONND_SOCKET": lab.socket])
    return (lab, client)
  }

  @Test("D4 grpc-go follows a thousand changes on one stream while it measures the bandwidth")
  func watch() throws {
    let (lab, client) = try self.start("watch", "1000")
    try client.line { $0 == "watching" }
    // Some changes are reported together.
    while try lab.status().generation < 1010 { try lab.change(100) }
    try client.expectSuccess()
    #expect(lab.connd?.standardError.contains("closed a client's connection") == false)
  }

  @Test("I7 grpc-go resumes on another connection, and gets the changes it has missed")
  func resume() throws {
    let (lab, client) = try self.start("resume")
    try client.line { $0 == "watching" }
    try lab.change(1)
    try client.line { $0 == "away" }
    try lab.change(3)
    client.signal(SIGUSR1)
    try client.expectSuccess()
  }

  @Test("I1 grpc-go guards a connection, and learns of its end")
  func guarded() throws {
    let (lab, client) = try self.start("guard")
    try client.line { $0 == "guarded" }
    try lab.namespace.ip("address del 192.0.2.2/24 dev eth0")
    try client.expectSuccess()
  }
}
