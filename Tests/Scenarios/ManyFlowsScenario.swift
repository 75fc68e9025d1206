import Glibc
import TestKit
import TestTraits
import Testing

/// Thousands of flows, from a client in another language.
@Suite("Many flows", .needsNamespaces, .blocking)
struct ManyFlowsScenario {
  private func laboratory(configuration: String = "") throws -> Laboratory {
    let lab = try Laboratory(configuration: configuration)
    try lab.addLink("eth0", "10.0.0.2")
    try lab.addLink("eth1", "10.1.0.2")
    try lab.namespace.ip("route add default via 10.0.0.1")
    try lab.startConnd()
    return lab
  }

  @Test(
    "I1 I3 a registration races with a change, a thousand times → the change is always reported",
    .needsAll("half a minute"))
  func races() throws {
    // An address that is lost while its link stays up has this time to come back.
    let lab = try self.laboratory(configuration: "grace: {route: 20ms}\n")
    let client = try lab.python("guard.py", "races")
    try client.expectSuccess(within: .seconds(330))
  }

  @Test("D4 streams cut in the middle of a registration leave no flow behind")
  func cut() throws {
    let lab = try self.laboratory()
    let client = try lab.python("guard.py", "cut")
    try client.expectSuccess(within: .seconds(120))
    try waitUntil("no flow is guarded any more") { try lab.statistics().guardedFlows == 0 }
  }

  @Test("I7 connd is killed and restarted with a thousand guarded flows")
  func restart() throws {
    let lab = try self.laboratory()
    let client = try lab.python("guard.py", "restart")
    try client.line(within: .seconds(60)) { $0 == "guarding" }
    let connd = try #require(lab.connd)
    connd.signal(SIGKILL)
    _ = try connd.wait()
    try client.line { $0 == "lost" }
    try lab.namespace.ip("route add 198.51.100.124/32 via 10.1.0.1 dev eth1")
    try lab.startConnd()
    try client.line(within: .seconds(60)) { $0 == "again" }
    try client.expectSuccess(within: .seconds(60))
  }

  @Test("D4 more flows than a stream may have → refused, and the stream lives on")
  func limits() throws {
    let lab = try self.laboratory()
    let client = try lab.python("guard.py", "limits")
    // A debug build takes 40 s for so many flows, and three times as long beside other tests.
    try client.expectSuccess(within: .seconds(300))
  }
}
