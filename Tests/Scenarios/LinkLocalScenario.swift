import TestKit
import TestTraits
import Testing

/// Connections to a neighbour's link-local address, which may exist on every link.
@Suite("Link-local addresses", .needsNamespaces, .blocking)
struct LinkLocalScenario {
  private static let neighbour = "fe80::77"

  /// A host with a cable and Wi-Fi, and the neighbour on the Wi-Fi. By the address alone, the
  /// kernel would choose the cable.
  private func laboratory() throws -> Laboratory {
    let lab = try Uplinks.laboratory(["eth0", "wlan0"], ipv6: true)
    try lab.outside.ip("address add \(Self.neighbour)/64 dev wlan0 nodad")
    try lab.start()
    return lab
  }

  /// Pulls the cable, and returns when connd has reported it to the flows on it.
  private func pullCable(of lab: Laboratory) throws {
    let wired = try GuardedFlow(lab, to: "10.0.0.1")
    try lab.step("the cable is pulled") { try lab.outside.ip("link set eth0 down") }
    try wired.expectDestroyed("interfaceLost")
  }

  @Test(
    "I0 C10 a connection to a link-local address belongs to the link that the address names",
    arguments: ["handler", "socket"])
  func plain(guarding: String) throws {
    let lab = try self.laboratory()
    let server = try EchoServer(lab, ["--ipv6"])
    let client = try server.client(to: "\(Self.neighbour)%wlan0", ["--by", guarding])
    try client.connect(1)
    let path = try client.next("path", of: "1")
    #expect(path.message == "wlan0" && path.state == "satisfied", "\(path)")
    try self.pullCable(of: lab)
    try client.expectEcho(1)
    let moment = CallProbe.now
    try lab.ip("link set wlan0 down")
    let end = try client.next("destroy", of: "1")
    // The link's IPv6 addresses disappear with it.
    #expect(end.reason == "sourceAddressLost" && end.at > moment, "\(end)")
    try client.quit()
    try server.end()
  }

  @Test("I0 a channel keeps a link-local connection on the link that the address names")
  func channel() throws {
    let lab = try self.laboratory()
    let server = try CallServer(lab, ["--ipv6"])
    let client = try CallProbe(
      lab, to: ["[\(Self.neighbour)%wlan0]:\(CallServer.port)"], ["--backoff", "60"])
    let calls = try client.open(0)
    try self.pullCable(of: lab)
    try client.expectUndisturbed(calls)
    let open = try client.open(0)
    #expect(open.local == calls.local)
    try lab.ip("link set wlan0 down")
    for id in open.ids.values {
      #expect(try client.next("ended", of: id).reason == "sourceAddressLost")
    }
    try client.quit()
    try server.end()
  }

  @Test("I0 a flow without a link is placed by its own address, or refused")
  func unnamed() throws {
    let lab = try self.laboratory()
    let own = try lab.namespace.run(
      "sh", "-c", "ip -6 -o address show dev wlan0 scope link | sed 's/.*inet6 //; s,/.*,,'")
    let local = own.split(separator: "\n").joined()
    #expect(local.hasPrefix("fe80:"))
    let flow = try GuardedFlow(lab, Self.neighbour, arguments: ["--local", local])
    #expect(flow.path.interface == "wlan0")
    for remote in ["\(Self.neighbour)%wlan0", "[\(Self.neighbour)%wlan0]:443"] {
      #expect(try GuardedFlow(lab, remote).path.interface == "wlan0")
    }
    let refused = try lab.connctl("guard", Self.neighbour)
    #expect(refused.status == 64)
    #expect(refused.standardError.contains("link-local"), "\(refused)")
  }
}
