import Glibc
import TestKit
import Testing

/// A connd that is wrong about what works. TCP is real.
@Suite("Breaker", .needsNamespaces, .laboratory)
struct BreakerScenario {
  /// A flow as a client registers it.
  private struct Registration: Decodable {
    var remote: String
    var local: String?
    var localPort: Int?
    var remotePort: Int?
    /// `protocol` in the .proto.
    var number: Int?

    enum CodingKeys: String, CodingKey {
      case remote
      case local
      case localPort
      case remotePort
      case number = "protocol"
    }
  }

  @Test(
    "I11 connections that are refuted three times running as soon as they are made: the fourth works"
  )
  func refuted() throws {
    let bench = try CallBench(["eth0"], withConnd: false)
    let connd = try Python.start(
      "python/refuter.py", [bench.lab.socket], in: bench.lab.namespace)
    try connd.line { $0 == "ready" }
    let server = try CallServer(bench.lab)
    let client = try bench.client(to: [CallBench.server])
    let warning = "connd declares new connections dead"
    // A call may be answered before connd has refuted its connection.
    try waitUntil("the breaker opens") {
      try client.next("ended", of: try client.startQuick(0))
      return client.command.standardError.contains(warning)
    }
    let calls = try client.open(0)
    try client.expectNextCall(0, from: "10.0.0.2", "refuted by connd")
    try client.expectUndisturbed(calls)
    #expect(try client.open(0).local == calls.local)

    let warnings = client.command.standardError.split(separator: "\n")
      .filter { $0.contains(warning) }
    #expect(warnings.count == 1)
    connd.signal(SIGKILL)
    let made = try connd.remainingOutput().split(separator: "\n")
      .map { try decode(String($0), as: Registration.self) }.filter { $0.local != nil }
    #expect(made.count == 3)
    #expect(Set(made.map(\.localPort)).count == 3)
    for flow in made {
      #expect(flow.local == "10.0.0.2")
      #expect(flow.remote == CallBench.server)
      #expect(flow.remotePort == CallServer.port)
      #expect(flow.number == 6)
    }
    for words in [
      "local=10.0.0.2", "local_port=\(made.last?.localPort ?? 0)", "remote=\(CallBench.server)",
      "remote_port=\(CallServer.port)", "reason=betterPath", "cause=registration diedBefore",
      "path=satisfied eth0 from 10.0.0.2 via 10.0.0.1 table 254",
    ] {
      #expect(warnings.first?.contains(words) == true, "\(words): \(warnings)")
    }
    try client.quit()
    try server.end()
    try connd.wait()
  }
}
