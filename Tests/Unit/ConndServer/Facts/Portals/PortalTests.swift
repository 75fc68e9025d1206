import Connectivity
import ConnectivityRules
import Glibc
import TestKit
import Testing

@testable import ConndServer

@Suite("Validation by other sources")
struct PortalTests {
  private static let portal = "https://portal.example/api"

  /// Reports facts.
  ///
  /// - Returns: the validation of the IPv4 path, and the causes of all published changes.
  private func say(_ fact: FactUpdate, _ loop: inout TestLoop) -> (KernelPath.Validation, [String])
  {
    loop.metering.updates = [fact]
    _ = loop.turn(sources: .metering)
    return self.state(loop)
  }

  private func state(_ loop: TestLoop) -> (KernelPath.Validation, [String]) {
    let causes = loop.loop.feed.store.past.compactMap { published -> String? in
      guard case .path(let path) = published.change else { return nil }
      return "\(path.cause.trigger.rawValue) \(path.cause.change)"
    }
    return (loop.loop.engine.snapshot.status.ipv4.validation, causes)
  }

  @Test("V1 a check of the path's link changes → a path event with its cause, and nothing ends")
  func published() throws {
    var loop = try TestLoop.started()
    #expect(try loop.guardFlow(1) == ["1 path eth0"])
    let change = "validation validationChanged"
    let full = KernelPath.Validation(.full, .networkManager)
    #expect(self.say(.checks(["eth1": .init(ipv4: .full)]), &loop) == (.unknown, []))
    #expect(self.say(.checks(["eth0": .init(ipv4: .full)]), &loop) == (full, [change]))
    #expect(self.say(.checks(["eth0": .init(ipv4: .full, ipv6: .portal)]), &loop).0 == full)
    #expect(
      self.say(.checks(["eth0": .init(ipv4: .portal)]), &loop)
        == (KernelPath.Validation(.portal, .networkManager), [change, change]))
    #expect(loop.invalidations.isEmpty)
    #expect(loop.count("flow_invalidations", "policy") == 0)
  }

  @Test("V1 the link loses its carrier → the advertised portal is forgotten")
  func forgotten() throws {
    var loop = try TestLoop.started()
    let advertised = KernelPath.Validation(.unknown, .routerAdvertisement, portal: Self.portal)
    let fact = FactUpdate.advertisement(.init(link: 2, portal: Self.portal))
    #expect(self.say(fact, &loop).0 == advertised)
    #expect(self.say(fact, &loop) == (advertised, ["validation validationChanged"]))
    var link = try #require(loop.kernel.linkTable[2]).link
    (link.operationalState, link.carrier) = (.down, false)
    link.flags.remove(.lowerUp)
    loop.kernel.linkTable[2]?.link = link
    _ = loop.tell([.link(link)])
    #expect(self.state(loop).0 == .unknown)
  }

  @Test("V1 a reload of the configuration → validations stay")
  func reloaded() throws {
    var loop = try TestLoop.started()
    _ = self.say(.checks(["eth0": .init(ipv4: .full)]), &loop)
    loop.loop.take(.configure(Configuration(), .unheard))
    #expect(self.state(loop).0.state == .full)
  }

  @Test("V1 networkd's state files → the portals by the names of links")
  func files() throws {
    let directory = try TemporaryDirectory()
    try Command.run(["mkdir", "-p", directory.path + "/run/systemd/netif/links"])
    let files = PortalFiles(root: directory.path)
    #expect(files.portals() == [:])
    let name = "run/systemd/netif/links/\(if_nametoindex("lo"))"
    try directory.write("ADMIN_STATE=configured\nCAPTIVE_PORTAL=\(Self.portal)\n", to: name)
    #expect(files.portals() == ["lo": Self.portal])
    try directory.write("CAPTIVE_PORTAL=https://a/\u{1B}[2J\n", to: name)
    #expect(files.portals() == [:])
  }
}
