import Glibc
import TestKit
import TestTraits
import Testing

/// A QUIC client that connd tells to move: the example for aioquic. The client only receives, so
/// only a late acknowledgement would show its peer the new address without connd.
@Suite("Migration", .needsNamespaces, .blocking)
struct MigrationScenario {
  private static let address = "\(Uplinks.server):4433"
  private static let size = 10_000_000

  private func start(_ lab: Laboratory) throws -> (server: RunningCommand, client: RunningCommand) {
    let server = try Python.start(
      "Examples/python/quic.py", ["serve", Self.address], in: lab.outside)
    try server.line { $0 == "listening" }
    let client = try Python.start(
      "Examples/python/quic.py", ["fetch", Self.address, "\(Self.size)", "--idle", "10"],
      in: lab.namespace, environment: ["CONND_SOCKET": lab.socket])
    return (server, client)
  }

  @Test("I12 the cable is pulled → a QUIC connection moves to Wi-Fi and loses no byte")
  func pulled() throws {
    let lab = try Uplinks.laboratory(["eth0", "wlan0"])
    try lab.startConnd()
    let (server, client) = try self.start(lab)
    try client.line { $0 == "guarded over eth0" }
    try client.line { $0 == "receives" }
    try lab.unplug("eth0")
    // Until the route is gone, new connections would leave by the dead link, too.
    try client.line { $0 == "INTERFACE_LOST: migrate" }
    try lab.namespace.ip("route del default dev eth0")
    try client.line { $0 == "moves to 10.1.0.2 over wlan0" }
    // Packets to the old address are sent again once the peer has checked the new one.
    let end = try client.line(within: .seconds(120)) { $0.hasPrefix("received") }
    #expect(end.hasPrefix("received \(Self.size) of \(Self.size) bytes"))
    try client.expectSuccess()
    withExtendedLifetime(server) {}
  }
}
