import TestKit
import TestTraits
import Testing

/// The lookup is not proof (E0), so the owner of a connection asks its peer (E4).
@Suite("Questions to peers", .needsNamespaces, .blocking)
struct QuestionScenario {
  /// A host that marks packets to one destination after their lookup. They leave by eth1, while
  /// lookups say eth0.
  private func laboratory(marking destination: String) throws -> Laboratory {
    let lab = try Uplinks.laboratory(["eth0", "eth1"], routes: ["eth0"])
    try Uplinks.mark(packetsTo: destination, in: lab)
    try lab.start()
    return lab
  }

  @Test(
    "E1 E4 an idle connection leaves by another link than its lookup says → asked, and not destroyed",
    arguments: ["handler", "socket"])
  func alive(guarding: String) throws {
    let lab = try self.laboratory(marking: Uplinks.server)
    let server = try EchoServer(lab)
    let client = try server.client(to: Uplinks.server, ["--by", guarding])
    try client.connect(1)
    try client.next("path", of: "1")
    try lab.unplug("eth0")
    #expect(try client.next("advise", of: "1").reason == "interfaceLost")
    try waitUntil("the peer has answered") { try lab.statistics().spared == 1 }
    try client.expectEcho(1)
    try client.quit()
    #expect(client.count { ["drain", "destroy", "ended"].contains($0.event) } == 0)
    try server.end()
  }

  @Test(
    "E1 E4 an idle connection leaves by the link that has failed → asked, and destroyed",
    arguments: ["handler", "socket"])
  func dead(guarding: String) throws {
    let lab = try self.laboratory(marking: "198.51.100.77")
    let server = try EchoServer(lab)
    let client = try server.client(to: Uplinks.server, ["--by", guarding])
    try client.connect(1)
    try client.next("path", of: "1")
    try lab.unplug("eth0")
    #expect(try client.next("advise", of: "1").reason == "interfaceLost")
    #expect(try client.next("destroy", of: "1").reason == "interfaceLost")
    try client.quit()
    #expect(client.count { $0.event == "drain" } == 0)
    try server.end()
  }
}
