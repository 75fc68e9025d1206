import TestKit
import TestTraits
import Testing

/// Links that come and go beside the path, which connd stops listening to.
@Suite("Containers", .needsNamespaces, .blocking)
struct ContainersScenario {
  private static let media = "links: [{match: eth0, medium: wired}, {match: late, medium: wifi}]"

  /// A machine on which so many containers came and went that connd filters out new links.
  private func deaf(_ prepare: (Laboratory) throws -> Void) throws -> Laboratory {
    let lab = try Laboratory(ipv6: true, configuration: Self.media)
    // Otherwise the kernel reports, a second later, that the address is unique (RFC 4862).
    try lab.namespace.set("net/ipv6/conf/default/accept_dad", "0")
    try lab.addLink("eth0")
    try prepare(lab)
    try lab.namespace.ip("route add default via 192.0.2.1 metric 100")
    try lab.start()
    _ = try self.pairs(10, in: lab)
    try waitUntil("connd sleeps while a pair comes and goes") { try self.pairs(1, in: lab) == 0 }
    return lab
  }

  private func deaf() throws -> Laboratory {
    try self.deaf { try $0.namespace.ip("address add 192.0.2.2/24 dev eth0") }
  }

  /// Adds pairs of links, sets them up, and deletes them.
  ///
  /// - Returns: how often that has woken the thread that reads netlink.
  private func pairs(_ count: Int, in lab: Laboratory) throws -> Int {
    let figures = try ProcessFigures(try #require(lab.connd))
    let sleeps = try figures.sleepsAtRest()
    try lab.namespace.ipBatch(
      (1...count).flatMap { number in
        let (one, other) = ("c\(number)", "d\(number)")
        return [
          "link add \(one) type veth peer name \(other)", "link set \(one) up",
          "link set \(other) up", "address add fe80::77/64 dev \(one) nodad", "link del \(one)",
        ]
      })
    return try figures.sleepsAtRest() - sleeps
  }

  /// Adds a link after the filter is set, up at both ends.
  private func addLate(_ lab: Laboratory) throws {
    try lab.namespace.ip(
      "link add late index 5000 type veth peer name late index 6000 netns \(lab.outside.name)")
    for namespace in [lab.namespace, lab.outside] { try namespace.ip("link set late up") }
  }

  @Test("T3 D7 many containers come and go → one more does not wake connd")
  func unheard() throws {
    let lab = try self.deaf()
    #expect(try self.pairs(50, in: lab) == 0)
    try lab.expectSilence(after: "containers")
    // A listing includes the late link.
    try self.addLate(lab)
    #expect(try lab.connctl("links").output.contains("late"))
  }

  @Test("K3 I2 the path moves to a late link → it passes the filter")
  func late() throws {
    let lab = try self.deaf()
    try self.addLate(lab)
    try lab.ip("address add 198.51.100.2/24 dev late")
    try lab.ip("route add default via 198.51.100.1 metric 50")
    #expect(try lab.event().to == "wifi")
    try lab.step("the carrier is lost") { try lab.outside.ip("link set late down") }
    let loss = try lab.event()
    #expect(loss.to == "none")
    #expect(loss.cause?.change == "carrierLost")
    try lab.step("it is gone") { try lab.namespace.ip("link del late") }
    #expect(try lab.events { $0.status.category == "wired" }.last?.status.interface == "eth0")
    // Nothing of it stays: other links come and go unnoticed again.
    _ = try self.pairs(10, in: lab)
    try waitUntil("connd sleeps while a pair comes and goes") { try self.pairs(1, in: lab) == 0 }
  }

  @Test("K6 a late link becomes a port of the path's bridge → it passes the filter")
  func port() throws {
    let lab = try self.deaf { lab in
      try lab.namespace.ip("link add br0 type bridge")
      try lab.namespace.ip("link set br0 up")
      try lab.namespace.ip("link set eth0 master br0")
      try lab.namespace.ip("address add 192.0.2.2/24 dev br0")
    }
    try self.addLate(lab)
    try lab.ip("link set late master br0")
    try lab.ip("link set eth0 nomaster")
    let moved = try lab.events { $0.status.category == "wifi" }
    #expect(moved.last?.status.ipv4.chain == ["br0", "late"])
    try lab.step("the carrier is lost") { try lab.outside.ip("link set late down") }
    #expect(try lab.events { $0.status.category == "none" }.last?.status.interface == "br0")
  }

  @Test("I7 an overrun while links are filtered out loses nothing")
  func overrun() throws {
    let lab = try self.deaf()
    try self.addLate(lab)
    // More messages than the socket holds, including the ones that lead to the late link.
    try lab.whileStopped {
      try lab.namespace.ipBatch(
        (0..<2_000).map { "address add 10.7.\($0 / 250).\($0 % 250)/32 dev eth0" } + [
          "address add 198.51.100.2/24 dev late", "route add default via 198.51.100.1 metric 50",
        ])
    }
    #expect(try lab.events { $0.status.category == "wifi" }.last?.status.interface == "late")
    try lab.step("the carrier is lost") { try lab.outside.ip("link set late down") }
    #expect(try lab.event().to == "none")
    #expect(try #require(lab.connd).overruns > 0)
  }
}
