import Glibc
import TestKit
import TestTraits
import Testing

/// The examples of the guide `GuardYourChannels`, with a server reachable over Wi-Fi and over
/// cellular.
@Suite("Examples", .needsNamespaces, .blocking)
struct ExamplesTests {
  /// The example in one of its languages.
  enum Example: CaseIterable {
    case python
    case cpp

    private static let program = Result {
      try Programs.made(by: "Tests/Programs/examples/build-cpp")
    }

    func start(in namespace: NetworkNamespace, connd: String) throws -> RunningCommand {
      switch self {
      case .python:
        return try Python.start(
          "Examples/python/guard.py", [ExamplesTests.server], in: namespace,
          environment: ["CONND_SOCKET": connd])
      case .cpp:
        return try namespace.spawn(
          [try Self.program.get(), ExamplesTests.server],
          environment: ["CONND_SOCKET": connd])
      }
    }
  }

  private static let serverAddress = "203.0.113.9"
  private static let server = "\(serverAddress):50051"

  /// A laboratory with two ways to the server, and the server.
  private func laboratory() throws -> (Laboratory, RunningCommand) {
    let lab = try Laboratory(
      configuration: """
        links:
          - {match: v-wifi, medium: wifi}
          - {match: v-cell, medium: cellular}
        """)
    try lab.addLink("v-wifi", "192.0.2.2")
    try lab.addLink("v-cell", "198.51.100.2")
    try lab.namespace.ip("route add default via 192.0.2.1 metric 100")
    try lab.namespace.ip("route add default via 198.51.100.1 metric 200")
    try lab.outside.ip("address add \(Self.serverAddress)/32 dev lo")
    let server = try Python.start(
      "Examples/python/server.py", [Self.server], in: lab.outside)
    try server.line { $0 == "listening" }
    return (lab, server)
  }

  /// Waits for each of these lines in the example's output, in any order.
  private func expect(_ example: RunningCommand, _ texts: String...) throws {
    var missing = texts
    while !missing.isEmpty {
      let line = try example.line { line in missing.contains { line.contains($0) } }
      missing.removeAll { line.contains($0) }
    }
  }

  @Test(
    "C2 C3 in other languages: a call that would hang ends, and the next one uses the other link",
    arguments: Example.allCases)
  func switchOver(_ example: Example) throws {
    let (lab, server) = try self.laboratory()
    try lab.startConnd()
    let guarded = try example.start(in: lab.namespace, connd: lab.socket)
    try self.expect(guarded, "the server sees ipv4:192.0.2.2:", "guarded, by v-wifi")
    // A client without connd loses its network the same way, and does not notice.
    let plain = try example.start(in: lab.namespace, connd: "/nowhere")
    try self.expect(plain, "the server sees ipv4:192.0.2.2:")

    try lab.namespace.ip("link set v-wifi down")
    try self.expect(guarded, "DESTROY: ", "the call ended: CANCELLED")
    try self.expect(guarded, "the server sees ipv4:198.51.100.2:")
    #expect(throws: CommandError.self, "without connd the call hangs") {
      try plain.nextLine(within: .seconds(5))
    }
    server.signal(SIGKILL)
  }

  @Test(
    "I8 in other languages: a user's override arrives immediately",
    arguments: Example.allCases)
  func costs(_ example: Example) throws {
    let (lab, server) = try self.laboratory()
    try lab.startConnd()
    let guarded = try example.start(in: lab.namespace, connd: lab.socket)
    try self.expect(guarded, "guarded, by v-wifi")
    #expect(try lab.connctl("expensive", "v-wifi", "on").status == 0)
    try self.expect(guarded, "the path is expensive now")
    #expect(try lab.connctl("constrain", "v-wifi", "on").status == 0)
    try self.expect(guarded, "the path is expensive and constrained now")
    #expect(try lab.connctl("expensive", "v-wifi", "off").status == 0)
    try self.expect(guarded, "the path is constrained now")
    #expect(try lab.connctl("forget", "v-wifi").status == 0)
    try self.expect(guarded, "the path is free now")
    server.signal(SIGKILL)
  }

  @Test(
    "C3 in other languages: after an outage, calls go out as soon as there is a network",
    arguments: Example.allCases)
  func outage(_ example: Example) throws {
    let (lab, server) = try self.laboratory()
    try lab.namespace.ip("link set v-cell down")
    try lab.startConnd()
    let guarded = try example.start(in: lab.namespace, connd: lab.socket)
    try self.expect(guarded, "the server sees ipv4:192.0.2.2:", "guarded, by v-wifi")

    try lab.namespace.ip("link set v-wifi down")
    try self.expect(guarded, "the call ended: CANCELLED")
    // The next one fails immediately, because the route is missing.
    try self.expect(guarded, "the call ended: ")
    try lab.namespace.ip("link set v-cell up")
    try lab.namespace.ip("route add default via 198.51.100.1")
    try self.expect(guarded, "the server sees ipv4:198.51.100.2:")
    server.signal(SIGKILL)
  }

  @Test(
    "C7 in other languages: connd is found when it starts, and reports what changed while it was away",
    arguments: Example.allCases)
  func restart(_ example: Example) throws {
    let (lab, server) = try self.laboratory()
    let guarded = try example.start(in: lab.namespace, connd: lab.socket)
    try self.expect(guarded, "the server sees ipv4:192.0.2.2:")
    let connd = try lab.startConnd()
    try self.expect(guarded, "guarded, by v-wifi")

    try connd.terminate()
    try lab.namespace.ip("link set v-wifi down")
    try lab.startConnd()
    try self.expect(guarded, "the call ended: CANCELLED")
    try self.expect(guarded, "the server sees ipv4:198.51.100.2:")
    server.signal(SIGKILL)
  }
}
